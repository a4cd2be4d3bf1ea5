use super::{Rig, SOURCE, Shaped};

const RULES: Shaped = Shaped { broadcast: true, ..SOURCE };

/// Records of many keys, so that every subtask has some.
fn everybody(rig: &mut Rig, time: i64) -> Vec<(i64, i64)> {
    rig.feed(0, 0, &(0..40).map(|key| (key, time)).collect::<Vec<_>>());
    rig.said().iter().map(|said| (said.0, said.3)).collect()
}

fn expected(rule: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    (0..40).map(|key| (key, rule(key))).collect()
}

#[test]
fn broadcast_records_reach_every_subtask() {
    for parallelism in [1, 3] {
        let mut rig = Rig::new(&[SOURCE, RULES], parallelism);
        assert_eq!(everybody(&mut rig, 1), expected(|_| -1));
        rig.feed(1, 0, &(0..40).map(|key| (key, 100 + key)).collect::<Vec<_>>());
        assert_eq!(everybody(&mut rig, 2), expected(|key| 100 + key), "at parallelism {parallelism}");
        rig.feed(1, 0, &[(7, 500)]);
        assert_eq!(everybody(&mut rig, 3), expected(|key| if key == 7 { 500 } else { 100 + key }));
    }
}

#[test]
fn every_subtask_has_the_same_after_a_restore_at_any_parallelism() {
    for (before, after) in [(1, 3), (3, 1), (3, 2), (2, 3)] {
        let mut rig = Rig::new(&[SOURCE, RULES], before);
        rig.feed(1, 0, &(0..40).map(|key| (key, key * key)).collect::<Vec<_>>());
        let restored = rig.checkpoint(1);
        rig.feed(1, 0, &[(7, 500)]);
        let mut rig = Rig::restored(&[SOURCE, RULES], after, Some(restored));
        assert_eq!(everybody(&mut rig, 1), expected(|key| key * key), "from {before} to {after}");
        let again = rig.checkpoint(2);
        let mut rig = Rig::restored(&[SOURCE, RULES], before, Some(again));
        assert_eq!(everybody(&mut rig, 1), expected(|key| key * key), "back to {before}");
    }
}

#[test]
fn the_broadcast_input_counts_in_the_watermark() {
    let mut rig = Rig::new(&[SOURCE, Shaped { bounded: true, ..RULES }], 2);
    rig.feed(0, 0, &[(1, 100)]);
    assert_eq!(rig.watermark(), i64::MIN, "the rules have had nothing");
    rig.feed(1, 0, &[(1, 50)]);
    assert_eq!(rig.watermark(), 49);
    rig.end(1, 0);
    assert_eq!(rig.watermark(), 99);
}

#[test]
fn a_bad_broadcast_record_makes_one_dead_letter() {
    let mut rig = Rig::new(&[SOURCE, RULES], 3);
    rig.feed(1, 0, &[(1, 10), (-1, 11), (2, 12)]);
    let letters: u64 = rig.workers.iter().map(|worker| worker.statistics().operators[0].lanes[1]).sum();
    assert_eq!(letters, 1, "though three subtasks find it bad");
    assert_eq!(everybody(&mut rig, 1), expected(|key| [-1, 10, 12].get(usize::try_from(key).unwrap()).copied().unwrap_or(-1)));
}
