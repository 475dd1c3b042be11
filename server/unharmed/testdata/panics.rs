// Rust: panics that are caught, resumed and carried out of threads, through
// frames with destructors; generic functions, methods of traits, closures,
// recursion. It also tells how long calls took that returned, as seen from
// within and from outside of them.
//
// build: -C opt-level=0 --edition=2021
// build: -C opt-level=3 -C codegen-units=1 --edition=2021
// more: -C opt-level=2 -C codegen-units=1 -C symbol-mangling-version=v0 --edition=2021
// more: -C opt-level=s -C strip=symbols --edition=2021
//
// As suite.h has it, `program N` acts N times and prints its counts, and
// `program 0` acts until its standard input ends.
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// What is counted of a function. Instances of a generic function share it.
struct Counted {
    name: &'static str,
    calls: AtomicU64,
    within: AtomicU64, // ns, of calls that returned
    around: AtomicU64,
}

macro_rules! counted {
    ($($id:ident $name:expr),* $(,)?) => {
        $(static $id: Counted = Counted {
            name: $name, calls: AtomicU64::new(0), within: AtomicU64::new(0), around: AtomicU64::new(0),
        };)*
        static ALL: &[&Counted] = &[$(&$id),*];
    };
}

counted! {
    WORK "panics::work",
    LARGEST "panics::largest",
    AREA_OF_SQUARE "<panics::Square as panics::Shape>::area",
    AREA_OF_REST "<panics::Rest as panics::Shape>::area",
    TWICE "panics::Shape::twice",
    SIDE "panics::Square::side",
    APPLY "panics::apply",
    DROP "<panics::Guard as core::ops::drop::Drop>::drop",
    THROWER "panics::thrower",
    RETHROWER "panics::rethrower",
    CAUGHT "panics::caught",
    DEEP "panics::deep",
}

/// Inside is a call from its first statement to its last.
struct Inside(&'static Counted, Instant);

impl Counted {
    #[inline(always)]
    fn enter(&'static self) -> Inside {
        self.calls.fetch_add(1, SeqCst);
        Inside(self, Instant::now())
    }
    /// around times a call from outside.
    #[inline(always)]
    fn around<T>(&self, f: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = f();
        self.around.fetch_add(begin.elapsed().as_nanos() as u64, SeqCst);
        result
    }
}

impl Inside {
    /// end passes on what the call returns.
    #[inline(always)]
    fn end<T>(self, result: T) -> T {
        self.0.within.fetch_add(self.1.elapsed().as_nanos() as u64, SeqCst);
        result
    }
}

/// kept is x, and keeps the optimizer from knowing it.
fn kept<T: Copy>(x: T) -> T {
    unsafe { std::ptr::read_volatile(&x) }
}

#[inline(never)]
fn work(n: u64) -> u64 {
    let c = WORK.enter();
    if n == 0 {
        return c.end(0);
    }
    let below = WORK.around(|| work(kept(n) - 1));
    c.end(kept(below) + 1)
}

#[inline(never)]
fn largest<T: PartialOrd + Copy>(list: &[T]) -> T {
    let c = LARGEST.enter();
    let mut best = list[0];
    for &x in list {
        if x > best {
            best = x;
        }
    }
    c.end(best)
}

trait Shape: Sync {
    fn area(&self) -> u64;
    /// Shapes share it: of dyn Shape there is one.
    #[inline(never)]
    fn twice(&self) -> u64 {
        let c = TWICE.enter();
        let area = self.area();
        c.end(2 * area)
    }
}

struct Square(u64);

impl Square {
    #[inline(never)]
    fn side(&self) -> u64 {
        let c = SIDE.enter();
        c.end(kept(self.0))
    }
}

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        let c = AREA_OF_SQUARE.enter();
        let side = SIDE.around(|| self.side());
        let more = WORK.around(|| work(2));
        c.end(side * side + more)
    }
}

/// Rest takes its time.
struct Rest(u64);

impl Shape for Rest {
    #[inline(never)]
    fn area(&self) -> u64 {
        let c = AREA_OF_REST.enter();
        thread::sleep(Duration::from_millis(self.0));
        c.end(kept(self.0))
    }
}

#[inline(never)]
fn apply(f: &dyn Fn(u64) -> u64, n: u64) -> u64 {
    let c = APPLY.enter();
    let result = f(n);
    c.end(result)
}

struct Guard(u64);

impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        DROP.calls.fetch_add(1, SeqCst);
        WORK.around(|| work(self.0));
    }
}

#[inline(never)]
fn thrower(n: u64) -> u64 {
    THROWER.calls.fetch_add(1, SeqCst);
    let g = Guard(1);
    if n == 0 {
        panic!("thrown");
    }
    let below = thrower(kept(n) - 1);
    kept(below) + g.0
}

#[inline(never)]
fn rethrower(n: u64) -> u64 {
    RETHROWER.calls.fetch_add(1, SeqCst);
    match catch_unwind(|| if n == 0 { thrower(3) } else { rethrower(n - 1) + 1 }) {
        Ok(r) => r,
        Err(what) => {
            WORK.around(|| work(2));
            resume_unwind(what)
        }
    }
}

#[inline(never)]
fn caught(kind: u64, n: u64) -> String {
    CAUGHT.calls.fetch_add(1, SeqCst);
    let result = catch_unwind(AssertUnwindSafe(|| match kind {
        0 => thrower(n),
        1 => rethrower(n),
        2 => apply(&|n| thrower(n), n),
        _ => LARGEST.around(|| largest(&[n; 0])), // out of bounds
    }));
    match result {
        Ok(r) => r.to_string(),
        Err(what) => match (what.downcast_ref::<&str>(), what.downcast_ref::<String>()) {
            (Some(text), _) => text.to_string(),
            (_, Some(text)) => text.clone(),
            _ => "something".to_string(),
        },
    }
}

#[inline(never)]
fn deep(n: u64) -> u64 {
    let c = DEEP.enter();
    if n == 0 {
        return c.end(DROP.name.len() as u64);
    }
    let below = DEEP.around(|| deep(kept(n) - 1));
    c.end(kept(below) + 1)
}

fn act() -> String {
    let mut said = String::new();
    for kind in 0..4 {
        writeln!(said, "kind {}: {}", kind, caught(kind, 20)).unwrap();
    }
    for _ in 0..5 {
        caught(0, 70);
    }
    let threads: Vec<_> = (0..4)
        .map(|i| {
            thread::spawn(move || {
                for k in 0..5 {
                    caught(1, i + k);
                }
                rethrower(i)
            })
        })
        .collect();
    let ended = threads.into_iter().map(|t| t.join()).filter(|r| r.is_err()).count();
    let square = Square(kept(5));
    let shapes: [&dyn Shape; 2] = [&square, &Rest(kept(2))];
    let mut sum = 0;
    for (i, s) in shapes.iter().enumerate() {
        let area = if i == 0 { &AREA_OF_SQUARE } else { &AREA_OF_REST };
        sum += area.around(|| s.area());
        // What twice calls is timed as what it is a part of.
        sum += TWICE.around(|| area.around(|| s.twice()));
    }
    let whole = LARGEST.around(|| largest(&[1u32, kept(7), 3]));
    let half = LARGEST.around(|| largest(&[0.5f64, kept(2.5)]));
    let applied = APPLY.around(|| apply(&|n| n + WORK.around(|| work(n)), 6));
    let depth = DEEP.around(|| deep(200));
    writeln!(said, "{} threads panicked, {} {} {} {} {}", ended, sum, whole, half, applied, depth).unwrap();
    said
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

extern "C" {
    fn poll(fds: *mut PollFd, n: u64, timeout: i32) -> i32;
}

fn told_to_end() -> bool {
    let mut input = PollFd { fd: 0, events: 1 | 16, revents: 0 };
    unsafe { poll(&mut input, 1, 0) > 0 }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).map_or(1, |a| a.parse().unwrap());
    std::panic::set_hook(Box::new(|_| {}));
    let mut first = String::new();
    let mut n = 0;
    while if rounds > 0 { n < rounds } else { n == 0 || !told_to_end() } {
        let said = act();
        if n == 0 {
            first = said;
            println!("running");
            std::io::stdout().flush().unwrap();
        } else if said != first {
            println!("round {} differs:\n{}", n, said);
            std::process::exit(70);
        }
        n += 1;
    }
    print!("{}", first);
    if rounds > 0 {
        for c in ALL {
            println!("calls {} {}", c.name, c.calls.load(SeqCst));
            if c.around.load(SeqCst) > 0 {
                println!("took {} {} {}", c.name, c.within.load(SeqCst), c.around.load(SeqCst));
            }
        }
    }
}
