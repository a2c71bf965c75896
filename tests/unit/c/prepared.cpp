// Predicts by the class of the library net: packed weights give the same bits, and throw when they are stale.
#include <cstdio>
#include <utility>
#include <vector>

#include "net.hpp"

static bool throws(net::model &model, const std::vector<float> &x)
{
    std::vector<float> y(16 * 10);
    try {
        model.predict_prepared(16, x.data(), y.data());
    } catch (const net::error &e) {
        return e.code() == NET_NULL;
    }
    return false;
}

static bool is_same(net::model &model, const std::vector<float> &x)
{
    std::vector<float> y(16 * 10), z(16 * 10);
    model.predict(16, x.data(), y.data());
    model.predict_prepared(16, x.data(), z.data());
    return y == z;
}

int main(int, char *arguments[])
{
    const std::vector<float> x(16 * 64, 0.5f), y(16 * 10, 0.1f);
    net::model model(0);
    if (!throws(model, x)) {
        return 1;
    }
    model.prepare();
    if (!is_same(model, x)) {
        return 2;
    }
    model.step(16, x.data(), y.data());
    if (!throws(model, x)) {
        return 3;
    }
    model.prepare();
    net::model other = std::move(model);
    if (!is_same(other, x)) {
        return 4;
    }
    other.save(arguments[1]);
    other.load(arguments[1]);
    if (!throws(other, x)) {
        return 5;
    }
    other.prepare();
    other.step_many(16, 1, x.data(), y.data(), std::vector<float>(1).data());
    return throws(other, x) ? 0 : 6;
}
