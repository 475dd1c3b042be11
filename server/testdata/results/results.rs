// Functions of Rust that take and return one of each type.
use std::hint::black_box;
use std::io::{BufRead, Write};

#[derive(Clone, Copy)]
pub enum Color { Red, Green = 7, Blue = 9 }
pub struct Point { pub x: i32, pub y: i32 }
pub struct Three { pub a: i32, pub b: i32, pub c: i32 }
pub struct Request<'a> { pub id: i64, pub path: &'a str, pub open: bool, pub parent: Option<&'a Request<'a>> }

pub struct Owner { pub name: String, pub age: u8 }

#[inline(never)]
pub fn integers(a: i8, b: i16, c: i32, d: i64, e: u8, f: u16) -> i32 { black_box(a as i32 + b as i32 + d as i32 + e as i32 + f as i32 + black_box(c) - black_box(c)) - 7 }
#[inline(never)]
pub fn more(a: u32, b: bool, c: Color, d: char) -> bool { black_box(a) > 0 && black_box(b) && c as u8 != 0 && black_box(d) != 'x' }
#[inline(never)]
pub fn texts(first: &str, n: i32, second: &str) -> usize { black_box(black_box(first).len() + n as usize + black_box(second).len()) }
#[inline(never)]
pub fn fields(r: &Request, p: Point) -> i64 { black_box(r.id) + black_box(p.x) as i64 + black_box(p.y) as i64 + r.path.len() as i64 }
#[inline(never)]
pub fn color(n: i32) -> Color { if black_box(n) > 0 { Color::Blue } else { Color::Red } }
#[inline(never)]
pub fn text(r: &Request<'static>) -> &'static str { black_box(r.path) }
#[inline(never)]
pub fn pair(n: i64) -> (i64, u8) { (black_box(-n), black_box(200)) }
#[inline(never)]
pub fn point(n: i32) -> Point { Point { x: black_box(n - 7), y: black_box(n + 2) } }
#[inline(never)]
pub fn three(t: Three, n: u16) -> Three { black_box(Three { a: t.a - 1, b: t.b + n as i32, c: t.c }) }
#[inline(never)]
pub fn constant(n: u16) -> u16 { black_box(n) }
#[inline(never)]
pub fn owned(first: &String, r: &mut Owner) -> String { black_box(&r); black_box(format!("{first} {}", r.name)) }
#[inline(never)]
pub fn fraction(n: i32) -> f64 { black_box(n) as f64 / 4.0 }

fn main() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let r = Request { id: -5, path: "/index.html", open: true, parent: None };
    for _ in 0..3 {
        black_box(integers(black_box(-100), black_box(-30000), black_box(-2000000000), black_box(-9000000000000000000), black_box(200), black_box(60000)));
        black_box(more(black_box(4000000000), black_box(true), black_box(Color::Green), black_box('k')));
        black_box(texts(black_box("first"), black_box(1), black_box("the second")));
        black_box(fields(black_box(&r), black_box(Point { x: -1, y: 2 })));
        black_box(color(black_box(6)) as u8);
        black_box(text(black_box(&r)));
        black_box(pair(black_box(6)));
        black_box(point(black_box(6)));
        black_box(three(black_box(Three { a: -5, b: -6, c: 7 }), black_box(500)));
        black_box(constant(500));
        black_box(owned(black_box(&"grace".to_string()), black_box(&mut Owner { name: "hopper".to_string(), age: 9 })));
        black_box(fraction(black_box(6)));
    }
    println!("done {} {}", r.open, r.parent.is_some());
}
