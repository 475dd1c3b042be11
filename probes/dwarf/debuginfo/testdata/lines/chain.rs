// Closures and methods of traits that are inlined.
use std::collections::HashMap;

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);

impl Shape for Square {
    #[inline(always)]
    fn area(&self) -> u64 {
        squared(self.0)
    }
}

#[inline(always)]
fn squared(n: u64) -> u64 {
    n.wrapping_mul(n) ^ (n >> 3)
}

#[inline(never)]
fn total(all: &[Square]) -> u64 {
    all.iter().filter(|s| s.0 % 3 != 0).map(|s| s.area()).sum()
}

fn main() {
    let all: Vec<Square> = (0..std::env::args().count() as u64 * 10).map(Square).collect();
    let mut seen = HashMap::new();
    for a in std::env::args() {
        *seen.entry(a).or_insert(0u64) += total(&all);
    }
    println!("{:?}", seen.values().sum::<u64>());
}
