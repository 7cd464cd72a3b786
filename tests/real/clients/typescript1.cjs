// A client on the TypeScript SDK v1; steps.py says what it does. Its packages are found by NODE_PATH.

const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { SSEClientTransport } = require('@modelcontextprotocol/sdk/client/sse.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');
const { Steps, address, asked, program, report } = require('./steps.cjs');

// A session of the first generation: always of the legacy era.
class Session extends Steps {
    constructor(asked) {
        super(asked);
        const capabilities = { sampling: {}, elicitation: { form: {}, url: {} } };
        this.client = new Client({ name: 'typescript1', version: '1' }, { capabilities });
        this.client.setRequestHandler(types.CreateMessageRequestSchema, this.sample);
        this.client.setRequestHandler(types.ElicitRequestSchema, this.elicit);
        this.client.setNotificationHandler(types.LoggingMessageNotificationSchema, this.log);
        this.client.setNotificationHandler(types.ToolListChangedNotificationSchema, this.hear);
    }

    async tools() {
        return (await this.client.listTools()).tools;
    }

    async send(params, options, level) {
        if (level && this.client.getServerCapabilities().logging) await this.client.setLoggingLevel(level);
        return this.client.callTool(params, undefined, options);
    }

    listen = async () => async () => {};
}

(async () => {
    const told = await asked();
    const session = new Session(told);
    const url = address();
    const Transport = url?.[0].pathname === '/sse' ? SSEClientTransport : StreamableHTTPClientTransport;
    const transport = url ? new Transport(...url) : new StdioClientTransport(program());
    // This generation tells the version to its transport alone, where that wants to know.
    let version;
    const known = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = negotiated => {
        version = negotiated;
        known?.(negotiated);
    };
    await session.client.connect(transport);
    await report(session, told, version, session.client.getServerVersion()?.name);
    await session.client.close();
})();
