using System;
using System.Globalization;
using System.Linq;

static class Halves
{
    static void Main()
    {
        float[] x = Enumerable.Range(0, 1200).Select(i => (float)(i % 5)).ToArray();
        float[] y = Enumerable.Range(0, 900).Select(i => (float)(i % 2)).ToArray();
        var losses = new float[2];
        using (var model = new Iris(0))
        {
            float loss = model.Grads(150, x.Take(600).ToArray(), y.Take(450).ToArray());
            model.Update();
            model.StepMany(150, 2, x, y, losses);
            model.Save("trained.safetensors");
            var culture = CultureInfo.InvariantCulture;
            Console.WriteLine(string.Format(culture, "{0:F5} {1:F5} {2:F5}", loss, losses[0], losses[1]));
        }
    }
}
