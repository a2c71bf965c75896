// TensorFlow.js: variables, gradients by its tape, and its optimisers, on one of its backends.
import { createRequire } from "node:module";

export async function prepare({ net, sizes, loss, optimiser }, parameters, { x, y }, { packages, backend }) {
    const require = createRequire(`${packages}/`), tf = require("@tensorflow/tfjs");
    if (backend === "wasm") {
        const wasm = require("@tensorflow/tfjs-backend-wasm");
        wasm.setWasmPaths(`${packages}/node_modules/@tensorflow/tfjs-backend-wasm/dist/`);
        wasm.setThreadsCount(1);
    }
    await tf.setBackend(backend);
    await tf.ready();
    const p = Object.fromEntries(Object.entries(parameters).map(([name, { shape, data }]) => [name, tf.variable(tf.tensor(data, shape))]));
    const whole = ({ shape, data }) => (data instanceof BigInt64Array ? tf.tensor(Int32Array.from(data, Number), shape, "int32") : tf.tensor(data, shape));
    const given = whole(x), labels = whole(y);
    const affine = (name, z) => tf.add(tf.matMul(z, p[`${name}.weight`]), p[`${name}.bias`]);

    function perceptron(z, { widths, activation, last }) {
        const each = [...Array(widths.length - 2).fill(activation), last];
        return each.reduce((h, name, k) => (name === "identity" ? affine(`dense_${k}`, h) : tf[name](affine(`dense_${k}`, h))), z);
    }

    function lenet(z) {
        z = tf.transpose(z, [0, 2, 3, 1]);
        for (const [k, padding] of [[0, 2], [1, 0]]) {
            const filters = tf.transpose(p[`conv_${k}.weight`], [2, 3, 1, 0]);
            const convolved = tf.add(tf.conv2d(tf.pad(z, [[0, 0], [padding, padding], [padding, padding], [0, 0]]), filters, 1, "valid"), p[`conv_${k}.bias`]);
            z = tf.relu(tf.maxPool(convolved, 2, 2, "valid"));
        }
        const flat = tf.reshape(tf.transpose(z, [0, 3, 1, 2]), [z.shape[0], -1]);
        return perceptron(flat, { widths: [400, 120, 84, 10], activation: "relu", last: "identity" });
    }

    function norm(name, z) {
        const { mean, variance } = tf.moments(z, -1, true);
        return tf.add(tf.mul(tf.mul(tf.sub(z, mean), tf.rsqrt(tf.add(variance, 1e-5))), p[`${name}.weight`]), p[`${name}.bias`]);
    }

    function rows(name, z) {
        const flat = affine(name, tf.reshape(z, [-1, z.shape[z.shape.length - 1]]));
        return tf.reshape(flat, [...z.shape.slice(0, -1), flat.shape[1]]);
    }

    const gelu = (z) => tf.mul(tf.mul(z, 0.5), tf.add(1, tf.tanh(tf.mul(Math.sqrt(2 / Math.PI), tf.add(z, tf.mul(0.044715, tf.mul(z, tf.mul(z, z))))))));

    function gpt(tokens, { vocabulary, depth, heads, context, width }) {
        const mask = tf.tensor(Float32Array.from({ length: context ** 2 }, (_, i) => (i % context > Math.floor(i / context) ? -1e9 : 0)), [context, context]);
        const [n, t] = tokens.shape, characters = tf.oneHot(tf.reshape(tokens, [-1]), vocabulary).toFloat();
        let z = tf.add(tf.reshape(tf.matMul(characters, p["characters.weight"]), [n, t, width]), p["positions.weight"]);
        for (let k = 0; k < depth; k++) {
            const parts = tf.split(rows(`block_${k}.self_attn.in_proj`, norm(`block_${k}.norm1`, z)), 3, -1);
            const [q, key, v] = parts.map((part) => tf.transpose(tf.reshape(part, [n, t, heads, width / heads]), [0, 2, 1, 3]));
            const scores = tf.add(tf.mul(tf.matMul(q, key, false, true), 1 / Math.sqrt(width / heads)), mask);
            const mixed = tf.reshape(tf.transpose(tf.matMul(tf.softmax(scores), v), [0, 2, 1, 3]), [n, t, width]);
            z = tf.add(z, rows(`block_${k}.self_attn.out_proj`, mixed));
            z = tf.add(z, rows(`block_${k}.linear2`, gelu(rows(`block_${k}.linear1`, norm(`block_${k}.norm2`, z)))));
        }
        return tf.matMul(tf.reshape(norm("norm", z), [-1, width]), p["scores.weight"]);
    }

    const nets = { perceptron, lenet, gpt };
    const classes = loss === "mse" ? null : tf.oneHot(tf.reshape(labels, [-1]), sizes.vocabulary ?? 10).toFloat();

    function objective() {
        const scores = nets[net](given, sizes);
        if (loss === "mse") return tf.mean(tf.squaredDifference(scores, labels));
        return tf.losses.softmaxCrossEntropy(classes, tf.reshape(scores, [-1, classes.shape[1]]));
    }

    const decay = optimiser.weight_decay ?? 0, rate = optimiser.rate;
    const trainer = optimiser.kind === "adamw" ? tf.train.adam(rate, 0.9, 0.999, 1e-8) : tf.train.sgd(rate);
    return () => {
        if (decay) tf.tidy(() => Object.values(p).forEach((each) => each.assign(tf.mul(each, 1 - rate * decay))));
        const value = trainer.minimize(objective, true), [found] = value.dataSync();
        value.dispose();
        return found;
    };
}
