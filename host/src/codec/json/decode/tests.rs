use tidemill_core::schema::samples::{basket, everything, list, optional, random_value, record, tree};
use tidemill_core::schema::{JsonEncoder, walk};
use tidemill_wit::schema::{Type, TypeTable};

use super::JsonDecoder;
use crate::codec::{from_configuration, from_value, to_value};

fn decode(table: &TypeTable, json: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = vec![42];
    let result = JsonDecoder::new(table.clone()).decode(json, &mut out);
    assert!(out[0] == 42 && (result.is_ok() || out.len() == 1));
    result.map(|()| out.split_off(1))
}

fn encode(table: &TypeTable, payload: &[u8]) -> String {
    let mut out = Vec::new();
    JsonEncoder::new(table.clone()).encode(payload, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Decodes and encodes again.
fn through(table: &TypeTable, json: &str) -> Result<String, String> {
    decode(table, json.as_bytes()).map(|payload| encode(table, &payload))
}

const BASKET: &str = r#"{"basket_id":"b","store_id":1,"till_id":2,"business_date":"2026-08-15","event_ts":3,"uploaded_at":4,"lines":[{"sku":"A","qty":1},{"sku":"B","qty":-2}]}"#;

#[test]
fn fields_may_come_in_any_order_with_others_among_them() {
    for json in [
        BASKET,
        r#" {"store_id":1, "till_id":2, "x":[{"sku":{}}], "lines":[{"qty":1,"sku":"A"},{"sku":"B","y":null,"qty":-2}], "event_ts":3,
            "basket_id":"b", "uploaded_at":4, "business_date":"2026-08-15"} "#,
        r#"{"lines":[{"sku":"A","qty":1},{"qty":-2,"sku":"\u0042"}],"uploaded_at":4,"event_ts":3,"business_date":"2026-08-15","till_id":2,"store_id":1,"basket_id":"b"}"#,
    ] {
        assert_eq!(through(&basket(), json).unwrap(), BASKET);
    }
}

#[test]
fn absent_fields_take_their_default() {
    let mut table = record(&[("a", Type::I8), ("b", optional(Type::String)), ("c", Type::U16)]);
    if let tidemill_wit::schema::Shape::Struct(fields) = &mut table.types[0].shape {
        fields[2].default = Some(vec![0xAC, 2]);
        fields[2].aliases = vec!["see".to_owned()];
    }
    for (json, expected) in [
        (r#"{"a":1}"#, r#"{"a":1,"b":null,"c":300}"#),
        (r#"{"c":5,"a":1}"#, r#"{"a":1,"b":null,"c":5}"#),
        (r#"{"see":5,"b":"x","a":1}"#, r#"{"a":1,"b":"x","c":5}"#),
        (r#"{"b":null,"a":1}"#, r#"{"a":1,"b":null,"c":300}"#),
    ] {
        assert_eq!(through(&table, json).unwrap(), expected);
    }
    assert_eq!(through(&table, r#"{"c":1,"see":2,"a":1}"#).unwrap_err(), "duplicate field `c` (column 12)");
}

#[test]
fn numbers_are_exact_over_their_whole_range() {
    let table = record(&[("i", Type::I64), ("u", Type::U64), ("f", Type::F64), ("g", Type::F32), ("d", Type::Duration)]);
    for json in [
        r#"{"i":-9223372036854775808,"u":18446744073709551615,"f":0.1,"g":0.1,"d":-1}"#,
        r#"{"i":9223372036854775807,"u":9223372036854775808,"f":5e-324,"g":3.4028235e38,"d":1800000}"#,
    ] {
        assert_eq!(through(&table, json).unwrap().replace("e+", "e"), json);
    }
    assert_eq!(through(&table, r#"{"i":0,"u":0,"f":3,"g":-4,"d":"30m"}"#).unwrap(), r#"{"i":0,"u":0,"f":3.0,"g":-4.0,"d":1800000}"#);
}

#[test]
fn what_does_not_fit_is_explained_with_field_and_column() {
    let line = |qty: &str| BASKET.replace("-2", qty);
    for (json, expected) in [
        (line("9223372036854775808"), "lines[1].qty: 9223372036854775808 does not fit i64 (column 165)"),
        (line("1e30"), "lines[1].qty: 1e30 does not fit i64 (column 150)"),
        (line("1.0"), "lines[1].qty: 1.0 is not an integer (column 149)"),
        (line("\"2\""), "lines[1].qty: invalid type: string \"2\", expected i64 (column 149)"),
        (line("null"), "lines[1].qty: invalid type: null, expected i64 (column 150)"),
        (line("2").replace(",\"qty\":2", ""), "lines[1]: missing field `qty` (column 140)"),
        (line("2,\"qty\":3"), "lines[1]: duplicate field `qty` (column 153)"),
        (format!("{BASKET}x"), "trailing characters (column 152)"),
        (BASKET.replace("\"b\"", "\"b\u{0}\""), "basket_id: control character (\\u0000-\\u001F) found while parsing a string (column 16)"),
        (BASKET[..50].to_owned(), "EOF while parsing a string (column 50)"),
        (String::new(), "the record is empty"),
        ("  ".to_owned(), "the record is empty"),
        ("[1]".to_owned(), "invalid type: sequence, expected an object (column 1)"),
        (format!("{{\"store_id\":\"{}\"", "x".repeat(400)), "store_id"),
        (BASKET.replace("[{\"sku\":\"A\"", "[{\"sku\":\"\\ud800\""), "lines[0].sku: unexpected end of hex escape (column 124)"),
    ] {
        let error = through(&basket(), &json).unwrap_err();
        assert!(error.starts_with(expected) && error.len() < 450, "{json}: {error}");
    }
    let not_utf8 = decode(&basket(), b"{\"x\":\"\xFF\"}").unwrap_err();
    assert_eq!(not_utf8, "the record is not UTF-8 (column 7)");
}

#[test]
fn every_kind_of_type_has_its_messages() {
    let map = |key, value| Type::Map(Box::new(key), Box::new(value));
    let kind = TypeTable { root: Type::Named(1), ..everything() };
    let of = TypeTable::of;
    for (table, json, expected) in [
        (of(Type::U8), "300", "300 does not fit u8 (column 3)"),
        (of(Type::U64), "-1", "-1 does not fit u64 (column 2)"),
        (of(Type::F32), "1e300", "1e300 does not fit f32 (column 5)"),
        (of(Type::F64), "1e400", "number out of range (column 5)"),
        (of(Type::Bool), "1", "invalid type: integer `1`, expected bool (column 1)"),
        (of(Type::Bytes), "\"*\"", "the text is not base64 (Invalid symbol 42, offset 0.) (column 3)"),
        (of(Type::Duration), "\"5\"", "5 has no unit: write 5s or 5ms (column 3)"),
        (of(Type::F64), "\"nan\"", "invalid type: string \"nan\", expected f64 (column 5)"),
        (of(Type::F64), "[1]", "invalid type: sequence, expected f64 (column 1)"),
        (of(Type::Duration), "1.5", "1.5 is not an integer (column 3)"),
        (of(Type::Duration), "true", "invalid type: boolean `true`, expected a duration, milliseconds or text like \"30m\" (column 4)"),
        (of(Type::Tuple(vec![Type::I8, Type::I8])), "[1]", "a list of 1 values, expected 2 (column 3)"),
        (of(Type::Tuple(vec![Type::I8, Type::I8])), "[1,2,3]", "a list of more values than 2 (column 7)"),
        (of(Type::Tuple(vec![Type::I8, Type::I8])), "[1,200]", "[1]: 200 does not fit i8 (column 6)"),
        (of(map(Type::U8, Type::I8)), "{\"300\":1}", "the key \"300\" is not an integer of 8 bits (column 6)"),
        (of(map(Type::Bool, Type::I8)), "[[true]]", "[0]: a list of 1 values, expected 2 (column 7)"),
        (of(map(Type::String, Type::I8)), "{\"a\":1,\"b\":\"x\"}", "[1]: invalid type: string \"x\", expected i8 (column 14)"),
        (of(list(Type::I8)), "{}", "invalid type: map, expected [i8] (column 1)"),
        (of(Type::Unit), "0", "invalid type: integer `0`, expected null (column 1)"),
        (kind.clone(), "\"other\"", "unknown variant \"other\", expected plain, One, Two, full (column 7)"),
        (kind.clone(), "\"One\"", "the variant \"One\" needs content, as in {\"One\": ..} (column 5)"),
        (kind.clone(), "{\"uno\":-1}", "One: -1 does not fit u32 (column 9)"),
        (kind.clone(), "{}", "an empty object, expected the name of a variant and its content (column 2)"),
        (kind.clone(), "{\"One\":1,\"plain\":null}", "an enum's object has more than one variant (column 16)"),
        (kind.clone(), "{\"Two\":[1]}", "Two: a list of 1 values, expected 2 (column 10)"),
        (kind.clone(), "{\"full\":{\"x\":1,\"y\":2}}", "full.y: invalid type: integer `2`, expected bool (column 20)"),
        (kind, "5", "invalid type: integer `5`, expected plain | One(u32,) | Two(i8, string) | full {x: f64, y?: bool} (column 1)"),
    ] {
        assert_eq!(through(&table, json).unwrap_err(), expected, "{json}");
    }
}

#[test]
fn minus_zero_is_zero_for_every_integer() {
    for ty in [Type::I8, Type::I16, Type::I32, Type::I64, Type::U8, Type::U16, Type::U32, Type::U64, Type::Duration] {
        let table = record(&[("n", ty.clone()), ("m", optional(ty.clone())), ("l", list(ty.clone()))]);
        assert_eq!(through(&table, r#"{"n":-0,"m":-0,"l":[-0,0]}"#).unwrap(), r#"{"n":0,"m":0,"l":[0,0]}"#);
        let map = TypeTable::of(Type::Map(Box::new(ty), Box::new(Type::Bool)));
        assert_eq!(through(&map, r#"{"-0":true}"#).unwrap(), r#"{"0":true}"#);
    }
    assert_eq!(through(&TypeTable::of(Type::F64), "-0").unwrap(), "-0.0");
}

#[test]
fn floats_that_json_has_no_numbers_for_are_strings() {
    let table = record(&[("f", Type::F64), ("g", optional(Type::F32)), ("m", Type::Map(Box::new(Type::F64), Box::new(Type::F32)))]);
    let json = r#"{"f":"NaN","g":"-Infinity","m":[["Infinity","NaN"]]}"#;
    assert_eq!(through(&table, json).unwrap(), json);
    assert_eq!(through(&table, r#"{"f":null,"m":[]}"#).unwrap_err(), "f: invalid type: null, expected f64 (column 9)");
}

#[test]
fn people_write_durations_with_their_unit_and_programs_may_leave_it_out() {
    let durations = Type::Map(Box::new(Type::Duration), Box::new(list(optional(Type::Duration))));
    let table = record(&[("wait", Type::Duration), ("waits", durations)]);
    let json = |wait: &str, key: &str, item: &str| format!(r#"{{"wait":{wait},"waits":{{"{key}":[{item}]}}}}"#);
    assert_eq!(through(&table, &json("60", "-5", "7")).unwrap(), json("60", "-5", "7"));
    assert_eq!(through(&table, &json("\"1m\"", "2s", "\"-3s\"")).unwrap(), json("60000", "2000", "-3000"));
    let by_hand = |text: &str| from_configuration(&table, &serde_json::from_str(text).unwrap());
    assert!(by_hand(&json("\"1m\"", "2s", "\"-3s\"")).is_ok());
    for (text, expected) in [
        (json("60", "2s", "null"), "wait: 60 has no unit: write 60s or 60ms"),
        (json("0", "2s", "null"), "wait: 0 has no unit: write 0s or 0ms"),
        (json("\"60\"", "2s", "null"), "wait: 60 has no unit: write 60s or 60ms"),
        (json("1.5", "2s", "null"), "wait: `1.5` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m"),
        (json("\"1m\"", "60", "null"), "waits: 60 has no unit: write 60s or 60ms"),
        (json("\"1m\"", "2s", "null,-7"), "waits[0][1]: -7 has no unit: write -7s or -7ms"),
    ] {
        assert_eq!(by_hand(&text).unwrap_err(), expected, "{text}");
        let rows = JsonDecoder::new(table.clone()).by_hand().decode(text.as_bytes(), &mut Vec::new());
        assert!(rows.unwrap_err().starts_with(expected), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "{\"name\":\"\",\"children\":[".repeat(depth), "]}".repeat(depth));
    assert!(through(&tree(), &nested(32)).is_ok());
    let error = through(&tree(), &nested(33)).unwrap_err();
    assert!(error.contains("the value is nested deeper than 64 levels"), "{error}");
    assert!(through(&basket(), &format!("{{\"x\":{}", "[".repeat(200_000))).is_err());
}

#[test]
fn random_values_come_back_the_same() {
    let mut random = fastrand::Rng::with_seed(5);
    for table in [basket(), tree(), everything()] {
        let mut decoder = JsonDecoder::new(table.clone());
        for _ in 0..2_000 {
            let (mut payload, mut back) = (Vec::new(), Vec::new());
            random_value(&table, &table.root, &mut || random.u64(..), &mut payload);
            let json = encode(&table, &payload);
            decoder.decode(json.as_bytes(), &mut back).unwrap();
            assert_eq!(back, payload, "{json}");
            // A JSON object of serde_json has its keys sorted, so values are compared rather than bytes.
            let value = to_value(&table, &payload).unwrap();
            assert_eq!(to_value(&table, &from_value(&table, &value).unwrap()).unwrap(), value);
        }
    }
}

#[test]
fn mutations_never_panic_and_leave_nothing_behind() {
    let mut random = fastrand::Rng::with_seed(6);
    for table in [basket(), tree(), everything()] {
        let mut decoder = JsonDecoder::new(table.clone());
        for _ in 0..3_000 {
            let (mut payload, mut out) = (Vec::new(), vec![1, 2, 3]);
            random_value(&table, &table.root, &mut || random.u64(..), &mut payload);
            let mut json = encode(&table, &payload).into_bytes();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..json.len());
                json[at] = if random.bool() { random.u8(..) } else { *random.choice(b"{}[],:\"01-.enul").unwrap() };
            }
            match decoder.decode(&json, &mut out) {
                Ok(()) => walk::check(&table, &out[3..]).unwrap(),
                Err(reason) => assert!(out == [1, 2, 3] && !reason.is_empty()),
            }
        }
    }
}
