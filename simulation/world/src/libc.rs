//! What the C library tells a simulated process: clocks, the next timer of its runtime, randomness, and its name.
//!
//! The functions with the names of the C library's stand before them when the program is linked. On the thread of a
//! simulation they answer from the state below; on other threads they ask the kernel. This file has all `unsafe` of the
//! simulation.

#![expect(unsafe_code, reason = "these functions are called by the C library's rules")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::task::{Context, Poll, Waker};

use crate::clocks::{Clock, Clocks};
use crate::ids::ProcessId;
use crate::random::Random;

/// What the thread's calls are answered from.
#[derive(Clone, Copy)]
enum Place {
    /// No simulation runs on this thread.
    Outside,
    /// A simulation runs on this thread, and no simulated process is being stepped. Nobody may read a clock.
    Between,
    /// A simulated process is being stepped.
    Inside(ProcessId, Clocks),
}

/// How often a process is preempted when it reads a clock, and for how long at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preemption {
    /// Of 65,536 reads, so many are followed by a preemption.
    pub often: u16,
    /// The longest preemption, in nanoseconds. Short ones are likelier.
    pub longest: u64,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Outside) };
    static NOW: Cell<u64> = const { Cell::new(0) };
    static READ: Cell<u64> = const { Cell::new(0) };
    static PREEMPTION: Cell<Preemption> = const { Cell::new(Preemption { often: 0, longest: 0 }) };
    static RANDOM: Cell<Random> = const { Cell::new(Random::new(0)) };
    static SLEEPS: Cell<Option<Option<u64>>> = const { Cell::new(None) };
    static STEP: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// From now on this thread is the simulation's.
pub(crate) fn begin(seed: u64) {
    PLACE.set(Place::Between);
    RANDOM.set(Random::new(seed));
}

/// Steps into a process at this instant of global time.
pub(crate) fn enter(process: ProcessId, clocks: Clocks, now: u64, preemption: Preemption) {
    PLACE.set(Place::Inside(process, clocks));
    NOW.set(now);
    PREEMPTION.set(preemption);
    SLEEPS.set(None);
}

pub(crate) fn leave() {
    PLACE.set(Place::Between);
}

/// The instant of global time inside a step.
pub(crate) fn now() -> u64 {
    NOW.get()
}

/// The process that is being stepped.
pub(crate) fn current() -> Option<ProcessId> {
    match PLACE.get() {
        Place::Inside(process, _) => Some(process),
        Place::Outside | Place::Between => None,
    }
}

/// What the process last read from `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn last_read() -> u64 {
    READ.get()
}

/// Ready once the process's runtime goes to sleep, with the time in milliseconds after which it wants to be woken.
pub(crate) fn poll_asleep(context: &mut Context<'_>) -> Poll<Option<u64>> {
    match SLEEPS.take() {
        Some(wakes) => {
            STEP.take();
            Poll::Ready(wakes)
        }
        None => {
            STEP.replace(Some(context.waker().clone()));
            Poll::Pending
        }
    }
}

/// Stands before the C library's function.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(id: libc::clockid_t, answer: *mut libc::timespec) -> c_int {
    let clocks = match PLACE.get() {
        Place::Inside(_, clocks) => clocks,
        // SAFETY: the arguments are the caller's.
        Place::Outside => return unsafe { libc::syscall(libc::SYS_clock_gettime, id, answer) as c_int },
        Place::Between => refuse("a clock was read between two steps of simulated processes"),
    };
    let now = NOW.get();
    let value = match id {
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE => {
            READ.set(clocks.read(Clock::Monotonic, now));
            READ.get()
        }
        libc::CLOCK_BOOTTIME => clocks.read(Clock::Boottime, now),
        libc::CLOCK_MONOTONIC_RAW => clocks.read(Clock::Raw, now),
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => clocks.read(Clock::Realtime, now),
        _ => refuse("a clock was read that the simulation does not have"),
    };
    NOW.set(now + preempted());
    // SAFETY: the caller gives a place for the answer.
    unsafe {
        (*answer).tv_sec = (value / 1_000_000_000) as libc::time_t;
        (*answer).tv_nsec = (value % 1_000_000_000) as c_long;
    }
    0
}

/// Stands before the C library's function. A simulated process has no file that becomes ready: the network wakes its tasks.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    if current().is_none() {
        let none: *const c_void = std::ptr::null();
        // SAFETY: the arguments are the caller's; no signal mask is given.
        return unsafe {
            libc::syscall(libc::SYS_epoll_pwait, epoll, events, most, milliseconds, none, 8) as c_int
        };
    }
    if milliseconds != 0 {
        SLEEPS.set(Some(u64::try_from(milliseconds).ok()));
        // The runtime polls its main future again, which ends the step.
        STEP.with_borrow(|waker| {
            if let Some(waker) = waker {
                waker.wake_by_ref();
            }
        });
    }
    0
}

/// Stands before the C library's function.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if matches!(PLACE.get(), Place::Outside) {
        // SAFETY: the arguments are the caller's.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize };
    }
    let mut random = RANDOM.get();
    // SAFETY: the caller gives so many bytes, and any of them may be written.
    unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) }.fill_with(|| random.bits() as u8);
    RANDOM.set(random);
    length as isize
}

/// Stands before the C library's function. A simulated process has the number that the world knows it by.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getpid() -> libc::pid_t {
    match current() {
        Some(process) => process.0 as libc::pid_t,
        // SAFETY: the call has no arguments.
        None => unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t },
    }
}

/// Stands before the C library's function. Every simulated machine has the same name.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn uname(names: *mut libc::utsname) -> c_int {
    // SAFETY: the argument is the caller's.
    let answer = unsafe { libc::syscall(libc::SYS_uname, names) as c_int };
    if answer == 0 && current().is_some() {
        // SAFETY: the kernel has written it.
        let name = unsafe { &mut (*names).nodename };
        name.fill(0);
        name.iter_mut().zip(b"simulated").for_each(|(place, byte)| *place = *byte as libc::c_char);
    }
    answer
}

fn preempted() -> u64 {
    let Preemption { often, longest } = PREEMPTION.get();
    let mut random = RANDOM.get();
    let length = match often {
        0 => 0,
        often if random.below(65_536) >= u64::from(often) => 0,
        // As likely below a thousandth of the longest as above.
        _ => longest >> random.below(20),
    };
    RANDOM.set(random);
    length
}

/// Ends the program: a function that others call by the C library's rules cannot panic.
fn refuse(why: &str) -> ! {
    eprintln!("simulation: {why}");
    std::process::abort()
}
