package app;

// Threads that call methods of several classes, and want one monitor.
public class Shop {
	static final Object till = new Object();
	static int sold;

	static class Item {
		final int price;
		Item(int price) { this.price = price; }
		int cost() { return tax() + price; }
		int tax() { return price / 5; }
	}

	static class Clerk extends Thread {
		Clerk(int n) { super("clerk" + n); }
		public void run() {
			for (int i = 0; i < 20; i++) sell(new Item(i));
		}
		static void sell(Item item) {
			synchronized (till) {
				sold += item.cost();
				try { Thread.sleep(1); } catch (InterruptedException e) { return; }
			}
		}
	}

	public static void main(String[] args) throws Exception {
		System.out.println("ready");
		while (System.in.read() >= 0) {
			Clerk[] clerks = {new Clerk(1), new Clerk(2), new Clerk(3)};
			for (Clerk c : clerks) c.start();
			for (Clerk c : clerks) c.join();
			System.out.println("sold");
		}
	}
}
