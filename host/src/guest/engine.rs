//! The WebAssembly engine of the process.

use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rayon::ThreadPoolBuilder;
use tidemill_core::{Error, Kind, Result};
use wasmtime::component::Linker;
use wasmtime::{Config, Engine, Inlining};
use xxhash_rust::xxh3::Xxh3;

use super::cache::ComponentCache;
use super::component::GuestComponent;
use super::imports;
use super::limits::Limits;
use super::store::Host;
use crate::machine;

/// The stack that a thread needs which calls guests, in bytes: what guests may use, and ample room for the host below it. On a thread with
/// less than a guest's stack and 256 KiB more a recursive guest would end the process.
pub const WORKER_STACK: usize = 4 << 20;

/// How often the engine looks for calls that are over their deadline.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The most code of a component, in bytes, that is compiled with inlining. Inlining costs time and memory that grow with the code: a component
/// that holds a Python interpreter took 59 seconds of processor time and 7.7 GB of memory to compile.
const MOST_INLINED: usize = 4 << 20;

/// Compiling takes no more threads than this.
const MOST_COMPILERS: usize = 8;

/// Compiles components and interrupts calls that take too long. Clones share one engine.
#[derive(Clone)]
pub struct GuestEngine {
    engine: Engine,
    linker: Arc<Linker<Host>>,
    signature: u64,
    stack: u64,
    /// The engine for components with more code than is inlined; made when the first of them is loaded.
    without_inlining: Arc<Mutex<Option<GuestEngine>>>,
}

impl GuestEngine {
    /// Starts the engine, and a thread that gives it the time for as long as it lives.
    ///
    /// # Errors
    /// The engine does not work on this machine.
    pub fn new() -> Result<Self> {
        Self::of(Limits::default().stack, Inlining::Yes)
    }

    /// An engine whose guests have so much stack, which is a matter of the whole engine; this one if they have it here.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_stack(&self, bytes: u64) -> Result<Self> {
        if bytes == self.stack { Ok(self.clone()) } else { Self::of(bytes, Inlining::Yes) }
    }

    /// The engine for a component with so many bytes of code. Inlining is a setting of an engine and a part of its signature, so the cache
    /// keeps the code of both apart.
    pub(super) fn for_code(&self, bytes: usize) -> Result<Self> {
        if bytes <= MOST_INLINED {
            return Ok(self.clone());
        }
        let mut kept = self.without_inlining.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*kept {
            return Ok(engine.clone());
        }
        let engine = Self::of(self.stack, Inlining::No)?;
        *kept = Some(engine.clone());
        Ok(engine)
    }

    fn of(stack: u64, inlining: Inlining) -> Result<Self> {
        machine::check_address_space()?;
        let failed = |error: wasmtime::Error| {
            let text = format!("starting the WebAssembly engine on this machine: {error:#}");
            Error::new(if machine::is_lacking(&text) { Kind::Machine } else { Kind::Config }, text)
        };
        let engine = Engine::new(&config(stack, inlining)).map_err(failed)?;
        let linker = imports::linker(&engine).map_err(failed)?;
        tick(&engine)?;
        let mut hasher = Xxh3::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { engine, linker: Arc::new(linker), signature: hasher.finish(), stack, without_inlining: Arc::default() })
    }

    /// Checks and compiles an upload: a component, or a core module with the embedded component type as cargo makes it. `name` is what
    /// messages call it. Compiling is left out if `cache` has the result.
    ///
    /// # Errors
    /// One sentence that says why it is not a guest of Tidemill, or that it fails to describe itself.
    pub fn load(&self, name: &str, bytes: &[u8], cache: Option<&ComponentCache>) -> Result<Arc<GuestComponent>> {
        GuestComponent::load(self, name, bytes, cache).map(Arc::new)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn linker(&self) -> &Linker<Host> {
        &self.linker
    }

    /// Stands for everything about the engine that compiled code depends on.
    pub(super) fn signature(&self) -> u64 {
        self.signature
    }
}

/// Epoch checks cost 31 ns a record, with inlining 19; fuel costs more than both. The support for asynchronous components costs several
/// hundred ns a call.
fn config(stack: u64, inlining: Inlining) -> Config {
    let mut config = Config::new();
    let stack = usize::try_from(stack.min(Limits::MAX_STACK)).unwrap_or(WORKER_STACK / 2);
    config
        .parallel_compilation(can_compile_in_parallel())
        .epoch_interruption(true)
        .compiler_inlining(inlining)
        .concurrency_support(false)
        .max_wasm_stack(stack);
    config
}

/// Whether there is a pool of threads for compiling. Left to itself the compiler makes one when it first needs it, and panics if it cannot.
fn can_compile_in_parallel() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();

    *THERE.get_or_init(|| {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_COMPILERS);
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("compile-{number}")).build_global();
        if let Err(error) = &pool {
            tracing::info!("components are compiled on one thread, since others cannot be made: {error}");
        }
        pool.is_ok()
    })
}

/// Advances the engine's epoch until the engine is gone. Time that the process did not run in does not count, so a suspended process does
/// not find all its calls over their deadline.
fn tick(engine: &Engine) -> Result<()> {
    let engine = engine.weak();
    let ticker = move || {
        loop {
            thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
        }
    };
    machine::spawn("guest-epoch", ticker).map(drop)
}

#[cfg(test)]
mod tests {
    use wasmtime::Inlining;

    use super::{GuestEngine, MOST_INLINED};

    #[test]
    fn components_with_much_code_share_an_engine_without_inlining() {
        let engine = GuestEngine::new().unwrap();
        let small = engine.for_code(MOST_INLINED).unwrap();
        assert_eq!((small.engine().get_compiler_inlining(), small.signature()), (Inlining::Yes, engine.signature()));
        let large = engine.for_code(MOST_INLINED + 1).unwrap();
        assert_eq!(large.engine().get_compiler_inlining(), Inlining::No);
        // The cache keeps entries by signature.
        assert_ne!(large.signature(), engine.signature());
        assert!(wasmtime::Engine::same(large.engine(), engine.clone().for_code(usize::MAX).unwrap().engine()));
        let deeper = engine.with_stack(1 << 20).unwrap().for_code(usize::MAX).unwrap();
        assert_eq!((deeper.stack, deeper.engine().get_compiler_inlining()), (1 << 20, Inlining::No));
    }
}
