//! stub
#![allow(missing_docs, clippy::all, dead_code)]
pub mod lanes {
    pub struct DeadLetter<'a> { pub operator: &'a str, pub reason: &'a str, pub source: Option<&'a str>, pub position: Option<&'a str>, pub timestamp: Option<i64>, pub value: &'a str }
    pub fn encode_dead_letter(_: &DeadLetter<'_>, _: &mut Vec<u8>) {}
    pub fn encode_invalid(_: &str, _: &str, _: &[u8], _: &mut Vec<u8>) {}
}
#[derive(Clone, Debug)]
pub struct KeyEncoder;
impl KeyEncoder { pub fn encode(&self, _: &[u8], _: &mut Vec<u8>) -> Result<(), String> { Ok(()) } }
pub struct FieldPath;
impl FieldPath { pub fn timestamp(&self, _: &[u8]) -> Result<Option<i64>, String> { Ok(None) } }
pub fn check(_: &tidemill_wit::schema::TypeTable, _: &[u8]) -> Result<(), String> { Ok(()) }
pub fn json_text(_: &tidemill_wit::schema::TypeTable, _: &[u8]) -> String { String::new() }
pub fn describe_key(_: &tidemill_wit::schema::TypeTable, _: &[u8]) -> String { String::new() }
