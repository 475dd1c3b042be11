package app;

import java.lang.reflect.Method;
import java.util.concurrent.*;

/**
 * A server whose events come by thread pools, a scheduler, a queue and reflection.
 * It also does what looks like handling events and is not: output calls toString,
 * loops look at the clock, and the compiler makes accessors.
 */
public class Pool {
  static volatile long sink;

  static void burn(long us) {
    long end = System.nanoTime() + us * 1000;
    while (System.nanoTime() < end) sink++;
  }

  static class IndexJob implements Runnable {
    public void run() { burn(1500); }
  }

  static void compress(int n) { burn(1500); sink += n; }
  static void flush() { burn(1500); }

  /** Called by reflection, as pages of web servers are. */
  public static class Pages {
    public static void index() { burn(1500); }
  }

  static class Message {
    final int n;
    Message(int n) { this.n = n; }
    @Override public String toString() { burn(300); return "message " + n; }
  }

  static class Clock {
    static long currentTimeMillis() { burn(200); return System.currentTimeMillis(); }
  }

  /** Its queue is private: the compiler or a nest gives others access to it. */
  static class Inbox extends Thread {
    private final BlockingQueue<Message> queue = new LinkedBlockingQueue<>();
    private void handle(Message m) { burn(1500); sink += m.n; }
    private void log(Message m) { StringBuilder b = new StringBuilder(); b.append(m); sink += b.length(); }
    public void run() {
      try {
        Method index = Pages.class.getMethod("index");
        for (;;) {
          Message m = queue.take();
          long now = Clock.currentTimeMillis();
          handle(m);
          index.invoke(null);
          log(m);
          sink += now;
        }
      } catch (Exception e) {
        throw new RuntimeException(e);
      }
    }
  }

  public static void main(String[] args) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(3);
    ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
    timer.scheduleWithFixedDelay(Pool::flush, 10, 10, TimeUnit.MILLISECONDS);
    Inbox inbox = new Inbox();
    inbox.start();
    for (int i = 0;; i++) {
      int n = i;
      if (i % 2 == 0) pool.submit(new IndexJob());
      else pool.submit(() -> compress(n));
      if (inbox.queue.isEmpty()) inbox.queue.add(new Message(i));
      Thread.sleep(8);
    }
  }
}
