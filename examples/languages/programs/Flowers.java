import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Scanner;

public final class Flowers {
    public static void main(String[] arguments) throws IOException {
        Scanner words = new Scanner(Files.readString(Path.of("flowers.txt")));
        float[] x = new float[150 * 4], y = new float[150 * 3];
        for (int i = 0; i < 150; i++) {
            for (int k = 0; k < 7; k++) {
                float number = Float.parseFloat(words.next());
                if (k < 4) {
                    x[4 * i + k] = number;
                } else {
                    y[3 * i + k - 4] = number;
                }
            }
        }
        Iris model = new Iris(0);
        float loss = 0;
        for (int step = 0; step < 300; step++) {
            loss = model.step(150, x, y);
        }
        System.out.printf("loss %.4f%n", loss);
        model.save("trained.safetensors");
    }
}
