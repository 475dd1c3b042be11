// A thread that waits in calls that are compiled into others.
use std::io::Write;

extern "C" {
    fn pause() -> i32;
}

struct Basket(u64);

trait Waits {
    fn wait(&self) -> u64;
}

impl Waits for Basket {
    #[inline(always)]
    fn wait(&self) -> u64 {
        let r = unsafe { pause() };
        r as u64 + self.0
    }
}

#[inline(always)]
fn checked<W: Waits>(w: &W) -> u64 {
    w.wait().wrapping_mul(3)
}

#[inline(never)]
fn serve(n: u64) -> u64 {
    let b = Basket(n);
    checked(&b) ^ 5
}

fn main() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    std::process::exit(serve(std::env::args().count() as u64) as i32);
}
