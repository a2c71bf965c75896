// A competitor of benchmarks.browser: node worker.mjs competitor.mjs folder packages. Each line that comes in is a number of
// steps; the answer has the seconds of processors and those of the clock that they took, and the last loss, as JSON.
import { readFileSync } from "node:fs";
import { cpuUsage } from "node:process";
import { createInterface } from "node:readline";

const [, , competitor, folder, packages, backend] = process.argv;
const TYPES = { F32: Float32Array, I64: BigInt64Array };

/** The arrays of a file of safetensors by name, with their shapes. */
function arrays(path) {
    const bytes = readFileSync(path), begin = 8 + Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.subarray(8, begin)), found = {};
    for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
        if (name === "__metadata__") continue;
        const [first, last] = data_offsets.map((offset) => begin + offset);
        found[name] = { shape, data: new TYPES[dtype](new Uint8Array(bytes.subarray(first, last)).buffer) };
    }
    return found;
}

const workload = JSON.parse(readFileSync(`${folder}/workload.json`));
const { prepare } = await import(competitor);
const step = await prepare(workload, arrays(`${folder}/parameters.safetensors`), arrays(`${folder}/data.safetensors`), { folder, packages, backend });

for await (const line of createInterface({ input: process.stdin })) {
    const { steps } = JSON.parse(line);
    const before = cpuUsage(), began = performance.now();
    let loss;
    try {
        for (let i = 0; i < steps; i++) loss = await step();
        const { user, system } = cpuUsage(before), elapsed = (performance.now() - began) / 1e3;
        process.stdout.write(`${JSON.stringify({ seconds: (user + system) / 1e6, elapsed, loss: Number(loss) })}\n`);
    } catch (error) {
        process.stdout.write(`${JSON.stringify({ error: String(error) })}\n`);
    }
}
