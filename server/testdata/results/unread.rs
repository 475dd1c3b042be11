// Functions that do not read all that they are passed, and callers that do not read what
// they return. Arguments are passed what their names say: a is 1001, b 1002, ...
use std::hint::black_box;
use std::io::{BufRead, Write};

#[inline(never)]
pub fn unread(a: u64, b: u64) -> u64 { let _ = a; black_box(b) + 1 }
#[inline(never)]
pub fn pointed(_a: u64, b: u64) -> u64 { black_box(b) + 3 }
#[inline(never)]
pub fn dropped(a: u64, b: u64) -> bool { black_box(a); black_box(b) > 5 }
#[inline(never)]
pub fn used(a: u64, b: u64) -> u64 { black_box(a) * black_box(b) }
#[inline(never)]
pub fn passed_on(a: u64, b: u64) -> u64 { used(a, b) }
#[inline(never)]
pub fn text(s: &str, b: u64) -> u64 { black_box(s.len()) as u64 + black_box(b) }
#[inline(never)]
pub fn owned(a: u64, b: u64) -> String { let _ = a; format!("{}", black_box(b)) }
pub struct Shelf { pub room: u64 }
impl Shelf {
    #[inline(never)]
    pub fn put(&self, _a: u64, b: u64) -> u64 { black_box(b) + 4 }
    #[inline(never)]
    pub fn take(&mut self, a: u64) -> u64 { self.room += black_box(a); self.room }
    #[inline(never)]
    pub fn look(&self, a: u64) -> u64 { self.room + black_box(a) }
}

fn main() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let mut shelf = Shelf { room: black_box(5) };
    let at: fn(u64, u64) -> u64 = black_box(pointed);
    for _ in 0..3 {
        let mut n = unread(black_box(1001), black_box(1002));
        n += at(black_box(1001), black_box(1002));
        n += pointed(black_box(1001), black_box(1002));
        dropped(black_box(1001), black_box(1002));
        n += used(black_box(1001), black_box(1002));
        n += passed_on(black_box(1001), black_box(1002));
        n += text(black_box("seven"), black_box(1002));
        n += owned(black_box(1001), black_box(1002)).len() as u64;
        shelf.room = black_box(5);
        n += shelf.put(black_box(1001), black_box(1002));
        shelf.room = black_box(5);
        n += shelf.look(black_box(1001));
        shelf.take(black_box(1001));
        black_box(n);
    }
    println!("done");
}
