using System;

static class Errors
{
    static void Report(Action run)
    {
        try
        {
            run();
        }
        catch (IrisException error)
        {
            Console.WriteLine(error.Code + " " + error.Message);
        }
    }

    static void Main()
    {
        float[] x = new float[600], y = new float[450];
        var model = new Iris(0);
        Report(() => model.Step(150, new float[8], y));
        Report(() => model.Step(-1, x, y));
        Report(() => model.Load("missing"));
    }
}
