use super::MemoryState;
use crate::state::conformance::conformance;

#[test]
fn does_what_every_backend_must() {
    conformance(&mut |states| Box::new(MemoryState::new(states)));
}
