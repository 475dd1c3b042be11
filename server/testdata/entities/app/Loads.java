package app;

import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

// Each line of input is a step: a class is loaded by a loader of its own and one of
// its methods called; and then nobody refers to either any more.
public class Loads {
	public static class Plugin implements Runnable {
		public void run() { calls++; }
		static int calls;
	}

	static class Apart extends URLClassLoader {
		Apart(URL[] urls) { super(urls, null); }
	}

	static void load(String dir) throws Exception {
		Apart loader = new Apart(new URL[] {Path.of(dir).toUri().toURL()});
		Runnable r = (Runnable) loader.loadClass("app.Loads$Plugin").getDeclaredConstructor().newInstance();
		r.run();
		loader.close();
	}

	public static void main(String[] args) throws Exception {
		System.out.println("ready");
		while (System.in.read() >= 0) {
			load(args[0]);
			System.out.println("loaded");
			if (System.in.read() < 0) return;
			System.gc();
			System.out.println("gone");
		}
	}
}
