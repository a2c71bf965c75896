// Runs emitted modules: each line that comes in is a request as JSON, and each has an answer, on standard output or
// the file descriptor that is an argument, where libraries that print to standard output do not disturb it.
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const types = {
    f64: Float64Array, f32: Float32Array, i64: BigInt64Array, i32: Int32Array, u32: Uint32Array, bool: Uint8Array,
    i8: Int8Array, u8: Uint8Array, f16: Uint16Array, bf16: Uint16Array,
};
const modules = new Map(), models = new Map();

/** An argument from JSON: a size, [dtype, bytes], or an object of such arrays. */
function decode(given) {
    if (typeof given === "number") return given;
    if (Array.isArray(given)) return new types[given[0]](Uint8Array.from(Buffer.from(given[1], "base64")).buffer);
    return Object.fromEntries(Object.entries(given).map(([name, array]) => [name, decode(array)]));
}

/** A result as JSON: an array as its bytes, a number as text, which may be NaN. */
function encode(value) {
    if (typeof value === "number" || typeof value === "bigint") return { number: Object.is(value, -0) ? "-0.0" : String(value) };
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
    if (Array.isArray(value)) return value.map(encode);
    return Object.fromEntries(Object.entries(value ?? {}).map(([name, each]) => [name, encode(each)]));
}

async function answer(request) {
    const { module, source, file, options, model, ended, tables = {}, method, passed = [], read = [] } = request;
    if (source !== undefined || file !== undefined) {
        modules.set(module, await import(file ?? `data:text/javascript;base64,${Buffer.from(source).toString("base64")}`));
    }
    if (options !== undefined) {
        if (options.wasm) options.wasm = Buffer.from(options.wasm, "base64");
        models.set(model, await modules.get(module).createModel(options));
    }
    for (const number of ended) {
        models.get(number)?.terminate?.();
        models.delete(number);
    }
    const found = models.get(model);
    for (const [table, arrays] of Object.entries(tables)) {
        for (const [name, array] of Object.entries(arrays)) found[table][name].set(decode(array));
    }
    if (Object.keys(tables).length) found.upload?.(); // models on a device have their own copies
    const result = method === undefined ? {} : encode(await found[method](...passed.map(decode)));
    if (read.length) await found.download?.();
    return { result, tables: Object.fromEntries(read.map((table) => [table, encode(found[table])])) };
}

for await (const line of createInterface({ input: process.stdin })) {
    const said = await answer(JSON.parse(line)).catch((error) => ({ kind: error.constructor.name, error: `${error}`, message: error.message }));
    const told = `${JSON.stringify(said)}\n`;
    if (process.argv[2]) writeFileSync(Number(process.argv[2]), told);
    else process.stdout.write(told);
}
