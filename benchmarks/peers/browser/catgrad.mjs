// Emitted JavaScript or WebAssembly, in a folder of the workload's; a number of threads may follow it.
import { readFileSync } from "node:fs";

export async function prepare({ name, batch }, parameters, { x, y }, { folder, backend }) {
    const [place, threads] = backend.split(":"), module = `${folder}/${place}/${name.replaceAll("-", "_")}`;
    const { createModel } = await import(`${module}.mjs`);
    const options = threads ? { threads: Number(threads) } : {};
    const model = await createModel(backend === "javascript" ? options : { ...options, wasm: readFileSync(`${module}.wasm`) });
    for (const [each, { data }] of Object.entries(parameters)) model.parameters[each].set(data);
    const [given, wanted] = [x, y].map(({ data }) => (data instanceof BigInt64Array && backend === "javascript" ? Float64Array.from(data, Number) : data));
    return () => model.step(given, wanted);
}
