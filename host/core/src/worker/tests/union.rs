use super::{Rig, SOURCE, Shaped};

#[test]
fn a_union_has_the_records_of_all_inputs_and_the_least_watermark() {
    for parallelism in 1..=3 {
        let mut rig = Rig::new(&[Shaped { splits: 2, ..SOURCE }, SOURCE], parallelism);
        rig.feed(0, 0, &[(1, 10)]);
        rig.feed(0, 1, &[(2, 30)]);
        rig.feed(1, 0, &[(1, 20)]);
        assert_eq!(rig.said().iter().map(|said| (said.0, said.1)).collect::<Vec<_>>(), [(1, 10), (1, 20), (2, 30)]);
        assert_eq!(rig.watermark(), 9, "at parallelism {parallelism}");
        rig.feed(0, 0, &[(1, 40)]);
        assert_eq!(rig.watermark(), 19, "at parallelism {parallelism}");
    }
}

#[test]
fn the_end_of_one_input_leaves_the_others() {
    let mut rig = Rig::new(&[Shaped { bounded: true, ..SOURCE }, Shaped { idle_timeout: Some(100), ..SOURCE }], 2);
    rig.feed(0, 0, &[(1, 10)]);
    rig.feed(1, 0, &[(1, 20)]);
    rig.end(0, 0);
    assert_eq!(rig.watermark(), 19);
    rig.pass(1000);
    assert_eq!(rig.watermark(), 19, "the open input is idle, not at its end");
    rig.feed(1, 0, &[(1, 30)]);
    assert_eq!(rig.watermark(), 29);
}
