// A client on the TypeScript SDK v2, of the era that it is told or finds; steps.py says what it does.
// Its packages are found by NODE_PATH.

const { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
const { Steps, address, asked, program, report } = require('./steps.cjs');

// A session of the second generation.
class Session extends Steps {
    constructor(asked) {
        super(asked);
        const mode = asked.mode ?? 'auto';
        this.client = new Client(
            { name: 'typescript2', version: '1' },
            {
                capabilities: { sampling: {}, elicitation: { form: {}, url: {} } },
                versionNegotiation: {
                    probe: { timeoutMs: asked.probe_ms },
                    mode: ['auto', 'legacy'].includes(mode) ? mode : { pin: mode }
                }
            }
        );
        this.client.setRequestHandler('sampling/createMessage', this.sample);
        this.client.setRequestHandler('elicitation/create', this.elicit);
        this.client.setNotificationHandler('notifications/message', this.log);
        this.client.setNotificationHandler('notifications/tools/list_changed', this.hear);
    }

    get modern() {
        return this.client.getProtocolEra() === 'modern';
    }

    async tools() {
        return (await this.client.listTools(undefined, { cacheMode: 'refresh' })).tools;
    }

    async send(params, options, level) {
        if (level && this.modern) {
            params = { ...params, _meta: { [LOG_LEVEL_META_KEY]: level } };
        } else if (level && this.client.getServerCapabilities().logging) {
            await this.client.setLoggingLevel(level);
        }
        return this.client.callTool(params, options);
    }

    async listen() {
        if (!this.modern) return async () => {};
        const stream = await this.client.listen({ toolsListChanged: true });
        return () => stream.close();
    }
}

(async () => {
    const told = await asked();
    const session = new Session(told);
    const url = address();
    await session.client.connect(
        url ? new StreamableHTTPClientTransport(...url) : new StdioClientTransport(program())
    );
    const version = session.client.getNegotiatedProtocolVersion();
    await report(session, told, version, session.client.getServerVersion()?.name);
    await session.client.close();
})();
