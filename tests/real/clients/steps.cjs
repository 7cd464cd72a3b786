// What a client of the TypeScript SDKs is told to do, step by step: steps.py says what each is.

const fs = require('node:fs');

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

// Polls, for five seconds at most, and says whether it came true.
async function comesTrue(condition) {
    for (const end = Date.now() + 5000; Date.now() < end; await pause(20)) {
        if (await condition()) return true;
    }
    return false;
}

// One session, and what was heard in it. A subclass adds `tools`, `send` and `listen`.
class Steps {
    constructor(asked) {
        this.answer = asked.answer ?? 'A. User';
        this.questions = [];
        this.messages = [];
        this.changes = 0;
    }

    // -- what the SDK calls --------------------------------------------------------------------------

    sample = async request => ({
        role: 'assistant',
        content: { type: 'text', text: `sampled ${request.params.messages.length}` },
        model: 'none'
    });

    elicit = async request => {
        this.questions.push(request.params.message);
        const url = request.params.mode === 'url';
        return { action: 'accept', ...(url ? {} : { content: { name: this.answer, integer: 7 } }) };
    };

    log = note => void this.messages.push([note.params.level, note.params.data]);

    hear = () => void this.changes++;

    // -- steps ---------------------------------------------------------------------------------------

    take = step => this[`do_${step.do}`](step);

    do_list = () => this.tools();

    async do_call(step) {
        if (step.times === undefined) return this.call(step);
        const got = new Array(step.times);
        let next = 0;
        const some = async () => {
            while (next < step.times) {
                const number = next++;
                const texts = Object.entries(step.arguments).map(([k, v]) => [k, v.replaceAll('{n}', number)]);
                got[number] = await this.call({ ...step, arguments: Object.fromEntries(texts) });
            }
        };
        await Promise.all(Array.from({ length: step.at_once }, some));
        return got;
    }

    async do_progress(step) {
        const reports = [];
        const onprogress = p => void reports.push([p.progress, p.total ?? null, p.message ?? null]);
        return { result: await this.call(step, { onprogress }), reports };
    }

    async do_cancel(step) {
        const giving = new AbortController();
        const onprogress = () => giving.abort('enough');
        let given_up = false;
        try {
            await this.call(step, { onprogress, signal: giving.signal });
        } catch {
            given_up = giving.signal.aborted;
        }
        return { given_up, heard: await this.heard(step) };
    }

    async heard(step) {
        if (step.heard_by === undefined) return null;
        return comesTrue(async () => {
            const said = await this.call({ name: step.heard_by });
            return said.content[0].text.split(' ').includes(step.arguments.label);
        });
    }

    async do_log(step) {
        this.messages.length = 0;
        const result = await this.call(step, {}, step.level);
        await pause(200);
        return { result, messages: [...this.messages] };
    }

    async do_change(step) {
        const before = this.changes;
        const listed = await this.names();
        const close = await this.listen();
        const result = await this.call(step);
        const told = await comesTrue(() => this.changes > before);
        await close();
        return { result, told, changed: (await this.names()) !== listed };
    }

    async do_meet(step) {
        fs.writeFileSync(step.here, '');
        while (!fs.existsSync(step.go)) await pause(20);
        return null;
    }

    names = async () => (await this.tools()).map(tool => tool.name).join();

    // Calls a tool and returns its result in the form of all clients.
    async call(step, options = {}, level = undefined) {
        let result;
        try {
            result = await this.send({ name: step.name, arguments: step.arguments ?? {} }, options, level);
        } catch (error) {
            if (typeof error.code !== 'number' || options.signal?.aborted) throw error;
            return { error: { code: error.code, message: error.message } };
        }
        const { content, structuredContent, isError = false } = result;
        return { content, ...(structuredContent === undefined ? {} : { structuredContent }), isError };
    }
}

const program = () => ({
    command: process.argv[2],
    args: process.argv.slice(3),
    env: { ...process.env },
    stderr: 'inherit'
});

// Where to connect to by HTTP, and what goes along with each request; null where a command is started.
const address = () =>
    process.env.MCPD_TOKEN === undefined
        ? null
        : [new URL(process.argv[2]), { requestInit: { headers: { Authorization: `Bearer ${process.env.MCPD_TOKEN}` } } }];

async function asked() {
    let text = '';
    for await (const chunk of process.stdin) text += chunk;
    return JSON.parse(text);
}

// Takes all steps, and prints what came of them.
async function report(steps, asked, version, server) {
    const results = [];
    for (const step of asked.steps) results.push(await steps.take(step));
    process.stdout.write(JSON.stringify({ version, server, results, questions: steps.questions }));
}

module.exports = { Steps, address, asked, program, report };
