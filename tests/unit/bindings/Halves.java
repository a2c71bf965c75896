import java.util.Arrays;
import java.util.Locale;

public final class Halves {
    public static void main(String[] arguments) {
        float[] x = new float[1200], y = new float[900], losses = new float[2];
        for (int i = 0; i < x.length; i++) {
            x[i] = i % 5;
        }
        for (int i = 0; i < y.length; i++) {
            y[i] = i % 2;
        }
        Iris model = new Iris(0);
        float loss = model.grads(150, Arrays.copyOf(x, 600), Arrays.copyOf(y, 450));
        model.update();
        model.stepMany(150, 2, x, y, losses);
        model.save("trained.safetensors");
        System.out.printf(Locale.ROOT, "%.5f %.5f %.5f%n", loss, losses[0], losses[1]);
    }
}
