using System;
using System.Globalization;
using System.IO;
using System.Linq;

static class Flowers
{
    static void Main()
    {
        float[][] rows = File.ReadAllLines("flowers.txt")
            .Select(line => line.Split(' ').Select(w => float.Parse(w, CultureInfo.InvariantCulture)).ToArray())
            .ToArray();
        float[] x = rows.SelectMany(row => row.Take(4)).ToArray();
        float[] y = rows.SelectMany(row => row.Skip(4)).ToArray();
        using (var model = new Iris(0))
        {
            float loss = 0;
            for (int step = 0; step < 300; step++)
            {
                loss = model.Step(150, x, y);
            }
            Console.WriteLine("loss " + loss.ToString("F4", CultureInfo.InvariantCulture));
            model.Save("trained.safetensors");
        }
    }
}
