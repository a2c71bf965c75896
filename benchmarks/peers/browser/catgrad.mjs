// Emitted JavaScript or WebAssembly.
import { readFileSync } from "node:fs";

export async function prepare({ name, batch }, parameters, { x, y }, { folder, backend }) {
    const module = name.replaceAll("-", "_"), { createModel } = await import(`${folder}/${backend}/${module}.mjs`);
    const model = await createModel(backend === "wasm" ? { wasm: readFileSync(`${folder}/wasm/${module}.wasm`) } : {});
    for (const [each, { data }] of Object.entries(parameters)) model.parameters[each].set(data);
    const [given, wanted] = [x, y].map(({ data }) => (data instanceof BigInt64Array && backend === "javascript" ? Float64Array.from(data, Number) : data));
    return () => model.step(given, wanted);
}
