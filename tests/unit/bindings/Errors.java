public final class Errors {
    static void report(Runnable run) {
        try {
            run.run();
        } catch (Iris.Error error) {
            System.out.println(error.code + " " + error.getMessage());
        }
    }

    public static void main(String[] arguments) {
        float[] x = new float[600], y = new float[450];
        Iris model = new Iris(0);
        report(() -> model.step(150, new float[8], y));
        report(() -> model.step(-1, x, y));
        report(() -> model.load("missing"));
    }
}
