// jax-js on WebAssembly: the step is compiled by jit, with the gradient and the optimiser.
import { createRequire } from "node:module";

export async function prepare({ net, sizes, loss, optimiser }, parameters, { x, y }, { packages, backend }) {
    const { init, defaultDevice, numpy: np, nn, lax, jit, valueAndGrad, tree } = createRequire(`${packages}/`)("@jax-js/jax");
    await init(backend);
    defaultDevice(backend);
    const array = ({ shape, data }) => (data instanceof BigInt64Array ? np.array(Int32Array.from(data, Number)) : np.array(data)).reshape(shape);
    const affine = (p, name, z) => np.dot(z, p[`${name}.weight`]).add(p[`${name}.bias`]);

    function perceptron(p, z, { widths, activation, last }) {
        const each = [...Array(widths.length - 2).fill(activation), last];
        return each.reduce((h, name, k) => nn[name](affine(p, `dense_${k}`, h)), z);
    }

    function lenet(p, z) {
        for (const [k, padding] of [[0, 2], [1, 0]]) {
            const convolved = lax.convGeneralDilated(z, p[`conv_${k}.weight`], [1, 1], [[padding, padding], [padding, padding]]).add(p[`conv_${k}.bias`].reshape([1, -1, 1, 1]));
            const [n, c, h, w] = convolved.shape;
            z = nn.relu(convolved.reshape([n, c, h / 2, 2, w / 2, 2]).max([3, 5]));
        }
        return perceptron(p, z.reshape([z.shape[0], -1]), { widths: [400, 120, 84, 10], activation: "relu", last: "identity" });
    }

    function norm(p, name, z) {
        const centred = z.ref.sub(z.mean(-1, { keepdims: true }));
        const variance = np.square(centred.ref).mean(-1, { keepdims: true });
        return centred.div(np.sqrt(variance.add(1e-5))).mul(p[`${name}.weight`]).add(p[`${name}.bias`]);
    }

    function gpt(p, characters, { depth, heads, context, width }) {
        const n = characters.shape[0] / context, t = context;
        let z = np.dot(characters, p["characters.weight"]).reshape([n, t, width]).add(p["positions.weight"]);
        for (let k = 0; k < depth; k++) {
            const parts = np.split(affine(p, `block_${k}.self_attn.in_proj`, norm(p, `block_${k}.norm1`, z.ref)), 3, -1);
            const [q, key, v] = parts.map((part) => part.reshape([n, t, heads, width / heads]).transpose([0, 2, 1, 3]));
            const scores = np.matmul(q, key.transpose([0, 1, 3, 2])).mul(1 / Math.sqrt(width / heads)).add(mask.ref);
            const mixed = np.matmul(nn.softmax(scores), v).transpose([0, 2, 1, 3]).reshape([n, t, width]);
            z = z.add(affine(p, `block_${k}.self_attn.out_proj`, mixed));
            const hidden = nn.gelu(affine(p, `block_${k}.linear1`, norm(p, `block_${k}.norm2`, z.ref)), { approximate: true });
            z = z.add(affine(p, `block_${k}.linear2`, hidden));
        }
        return np.dot(norm(p, "norm", z).reshape([n * t, width]), p["scores.weight"]);
    }

    const context = sizes.context ?? 1, classes = sizes.vocabulary ?? 10;
    const mask = np.array(Float32Array.from({ length: context ** 2 }, (_, i) => (i % context > Math.floor(i / context) ? -1e9 : 0))).reshape([context, context]);
    const hot = (given) => nn.oneHot(array(given).reshape([-1]), classes).astype(np.float32);
    const nets = { perceptron, lenet, gpt };
    const given = net === "gpt" ? hot(x) : array(x), wanted = loss === "mse" ? array(y) : hot(y);

    function objective(p, z, labels) {
        const scores = nets[net](p, z, sizes);
        if (loss === "mse") return np.square(scores.sub(labels)).mean();
        return nn.logSoftmax(scores, -1).mul(labels).sum(-1).mean().neg();
    }

    const { rate, kind, weight_decay: decay } = optimiser;
    const each = (first, f, ...others) => Object.fromEntries(Object.keys(first).map((name) => [name, f(first[name], ...others.map((other) => other[name]))]));
    let p = each(parameters, array), state = kind === "adamw" ? [each(p, (a) => np.zeros(a.shape)), each(p, (a) => np.zeros(a.shape))] : [];

    const step = jit((p, state, correction, z, labels) => {
        const [value, gradients] = valueAndGrad(objective)(tree.ref(p), z, labels);
        if (kind !== "adamw") return [each(p, (a, g) => a.sub(g.mul(rate)), gradients), state, value];
        const [first, second] = correction;
        const m = each(state[0], (a, g) => a.mul(0.9).add(g.ref.mul(0.1)), gradients);
        const v = each(state[1], (a, g) => a.mul(0.999).add(np.square(g).mul(0.001)), gradients);
        const moved = each(p, (a, m, v) => a.mul(1 - rate * decay).sub(m.ref.mul(first.ref).mul(rate).div(np.sqrt(v.ref.mul(second.ref)).add(1e-8))), m, v);
        return [moved, [m, v], value];
    });

    let count = 0;
    return async () => {
        count++;
        const correction = kind === "adamw" ? [np.array(1 / (1 - 0.9 ** count)), np.array(1 / (1 - 0.999 ** count))] : [];
        const [moved, next, value] = step(p, state, correction, given.ref, wanted.ref);
        [p, state] = [moved, next];
        return (await value.data())[0];
    };
}
