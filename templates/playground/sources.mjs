// Sources of targets with their parameters marked, and the start of the page.

const panes = [];
let lit = null;

/** Lights all occurrences of a parameter, or none. */
function light(chosen) {
    lit = lit === chosen ? null : chosen;
    for (const chip of $("parameters").children) chip.setAttribute("aria-pressed", String(Number(chip.value) === lit));
    for (const node of document.querySelectorAll(".diagram .node")) {
        const name = data.parameters[lit]?.name;
        node.classList.toggle("lit", name !== undefined && node.querySelector("text")?.textContent === name);
    }
    for (const pane of panes) pane.light();
}

/** A source with its parameters marked, for one target of many. */
function pane(chosen) {
    const article = $("source").content.cloneNode(true).firstElementChild;
    const [select, code, found] = ["select", "pre code", ".found"].map(each => article.querySelector(each));
    const places = new Map(data.parameters.flatMap(({ identifiers }, k) => identifiers.map(name => [name, k])));
    const escaped = [...places.keys()].sort((a, b) => b.length - a.length).map(name => name.replaceAll(".", "\\."));
    const word = new RegExp(`(?<![\\w.])(${escaped.join("|")})(?![\\w.])`);
    let here = 0;
    select.append(...data.sources.map(({ target }, k) => new Option(target, k, k === chosen, k === chosen)));
    function open() {
        const { text, file } = data.sources[Number(select.value)];
        article.querySelector(".name").textContent = file;
        code.replaceChildren(...text.split(word).map((part, k) => {
            if (k % 2 === 0) return part;
            const mark = document.createElement("mark");
            [mark.textContent, mark.dataset.parameter] = [part, places.get(part)];
            return mark;
        }));
        shine();
    }
    const marks = () => [...code.querySelectorAll("mark.lit")];
    function shine() {
        for (const mark of code.querySelectorAll("mark")) mark.classList.toggle("lit", Number(mark.dataset.parameter) === lit);
        found.textContent = lit === null ? "" : `${marks().length} times`;
    }
    function go(to) {
        const all = marks();
        for (const mark of all) mark.classList.remove("here");
        if (!all.length) return;
        here = (to + all.length) % all.length;
        all[here].classList.add("here");
        const box = code.parentElement;
        box.scrollTop += all[here].getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
        found.textContent = `${here + 1} of ${all.length}`;
    }
    select.addEventListener("change", () => { open(); go(0); });
    article.querySelector(".previous").addEventListener("click", () => go(here - 1));
    article.querySelector(".following").addEventListener("click", () => go(here + 1));
    code.addEventListener("click", ({ target }) => target.matches("mark") && light(Number(target.dataset.parameter)));
    code.addEventListener("pointerover", ({ target }) => {
        if (lit === null && target.matches("mark")) preview(Number(target.dataset.parameter));
    });
    code.addEventListener("pointerout", () => lit === null && preview(null));
    $("sources").append(article);
    open();
    panes.push({
        light: () => { shine(); go(0); },
        preview: k => code.querySelectorAll("mark").forEach(mark => mark.classList.toggle("lit", Number(mark.dataset.parameter ?? -1) === k)),
    });
}

const preview = k => panes.forEach(each => each.preview(k));

function sources() {
    for (const [k, { name, type }] of data.parameters.entries()) {
        const chip = document.createElement("button"), small = document.createElement("small");
        small.textContent = ` ${type}`;
        chip.append(name, small);
        chip.value = k;
        chip.setAttribute("aria-pressed", "false");
        chip.addEventListener("click", () => light(k));
        $("parameters").append(chip);
    }
    pane(0);
    pane(Math.min(1, data.sources.length - 1));
}

try {
    sources();
    globalThis.playground = data.samples ? await training() : {};
} catch (error) {
    fail(error);
}
