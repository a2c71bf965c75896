// Calls functions of emitted modules: each line that comes in is a request as JSON, and each has an answer.
import { createInterface } from "node:readline";

const arrays = { f64: Float64Array, f32: Float32Array, i32: Int32Array, u32: Uint32Array, bool: Uint8Array };
const modules = new Map();

/** An argument from JSON: a size, [dtype, bytes], or an object of such arrays. */
function decode(given) {
    if (typeof given === "number") return given;
    if (Array.isArray(given)) return new arrays[given[0]](Uint8Array.from(Buffer.from(given[1], "base64")).buffer);
    return Object.fromEntries(Object.entries(given).map(([name, array]) => [name, decode(array)]));
}

function encode(value) {
    if (typeof value === "number") return null;
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer).toString("base64");
    return Object.fromEntries(Object.entries(value).map(([name, array]) => [name, encode(array)]));
}

async function answer({ module, source, call, passed = [] }) {
    if (source !== undefined) {
        modules.set(module, await import(`data:text/javascript;base64,${Buffer.from(source).toString("base64")}`));
    }
    const given = passed.map(decode);
    if (call !== undefined) modules.get(module)[call](...given);
    return { passed: given.map(encode) };
}

for await (const line of createInterface({ input: process.stdin })) {
    const said = await answer(JSON.parse(line)).catch((error) => ({ kind: error.constructor.name, error: `${error}`, message: error.message }));
    process.stdout.write(`${JSON.stringify(said)}\n`);
}
