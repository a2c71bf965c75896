from array import array

import iris


def report(run, *arguments):
    try:
        run(*arguments)
    except iris.Error as error:
        print(error.code, error)


x, y = array("f", bytes(2400)), array("f", bytes(1800))
model = iris.Model(0)
report(model.step, 150, x[:8], y)
report(model.step, -1, x, y)
report(model.load, "missing")
report(model.step, 150, array("d", x), y)
report(model.predict, 150, x, bytes(y))
report(model.predict, 150, bytes(x), y)
report(model.predict, 150, memoryview(bytes(x)).cast("f"), y)
