'use strict';
// Lists between Python and here: their numbers as the bytes of float64, whatever else they hold by its place.

exports.pack = items => {
    const numbers = Float64Array.from(items, item => (typeof item === 'number' ? item : NaN));
    const others = {};
    items.forEach((item, place) => { if (typeof item !== 'number') others[place] = item; });
    return {numbers: Buffer.from(numbers.buffer).toString('base64'), others};
};

exports.unpack = ({numbers, others}) => {
    const bytes = Uint8Array.from(Buffer.from(numbers, 'base64'));
    return Object.assign(Array.from(new Float64Array(bytes.buffer)), others);
};
