//! What no detector should do.

/// Executes an unreachable instruction.
pub(crate) fn trap() -> ! {
    #[cfg(target_arch = "wasm32")]
    std::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort();
}

pub(crate) fn run_for_ever() -> ! {
    loop {
        std::hint::black_box(());
    }
}

/// Uses up the stack.
#[expect(unconditional_recursion, reason = "this is what it is for")]
pub(crate) fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(std::hint::black_box(depth + 1)) + 1)
}

/// Grows the memory.
pub(crate) fn allocate(mebibytes: u32) {
    let all: Vec<Vec<u8>> = (0..mebibytes).map(|_| vec![1; 1 << 20]).collect();
    std::hint::black_box(all);
}
