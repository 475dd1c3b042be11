package app;

// Each line of input is a step: left and right, each of which has a monitor, come to
// want that of the other, and third one of them; before that they only take turns.
public class Locks {
	static final Object a = new Object(), b = new Object();
	static volatile boolean deadly;

	static void both(Object first, Object second) throws Exception {
		for (;;) {
			boolean last = deadly;
			synchronized (first) {
				Thread.sleep(last ? 500 : 2);
				synchronized (second) {
					Thread.sleep(1);
				}
			}
			Thread.sleep(1);
		}
	}

	interface Body { void run() throws Exception; }

	static void thread(String name, Body body) {
		Thread t = new Thread(() -> {
			try { body.run(); } catch (Exception e) { throw new RuntimeException(e); }
		}, name);
		t.setDaemon(true);
		t.start();
	}

	public static void main(String[] args) throws Exception {
		Object gate = new Object();
		thread("left", () -> {
			while (!deadly) { synchronized (gate) { synchronized (a) { Thread.sleep(2); synchronized (b) { Thread.sleep(150); } } } Thread.sleep(1); }
			both(a, b);
		});
		thread("right", () -> {
			while (!deadly) { synchronized (gate) { synchronized (b) { Thread.sleep(2); synchronized (a) { Thread.sleep(150); } } } Thread.sleep(1); }
			both(b, a);
		});
		System.out.println("ready");
		if (System.in.read() < 0) return;
		deadly = true;
		while (true) { // until both wait
			int waiting = 0;
			for (Thread t : Thread.getAllStackTraces().keySet())
				if ((t.getName().equals("left") || t.getName().equals("right")) && t.getState() == Thread.State.BLOCKED) waiting++;
			if (waiting == 2) {
				Thread.sleep(100);
				java.lang.management.ThreadMXBean m = java.lang.management.ManagementFactory.getThreadMXBean();
				if (m.findDeadlockedThreads() != null) break;
			}
			Thread.sleep(20);
		}
		thread("third", () -> { synchronized (a) { System.out.println("third has it"); } });
		System.out.println("dead");
		System.in.read();
	}
}
