// A competitor of benchmarks.browser: node worker.mjs competitor.mjs folder packages backend. It answers each line of JSON
// with one line, as benchmarks.peers.worker does.
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

const FIRST = 3, WARM_STEPS = 20, WARM_SECONDS = 2;

/** What some steps took, by processors and by the clock, each and together. */
async function timed(steps) {
    const before = cpuUsage(), began = performance.now();
    for (let i = 0; i < steps; i++) await step();
    const { user, system } = cpuUsage(before), call = (performance.now() - began) / 1e3 / steps;
    return { processor: (user + system) / 1e6 / steps, clock: call, call };
}

/** The first losses, with more steps after them until engines have compiled. */
async function prepared() {
    const began = performance.now(), losses = [Number(await step())], seconds = (performance.now() - began) / 1e3;
    while (losses.length < FIRST) losses.push(Number(await step()));
    for (let i = 0; i < WARM_STEPS && performance.now() - began < WARM_SECONDS * 1e3; i++) await step();
    return { seconds, losses };
}

const answer = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

answer({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
    const { do: asked, times } = JSON.parse(line);
    answer(await (asked === "prepare" ? prepared() : timed(times)));
}
