use tidemill_wit::schema::{NamedType, Shape, Type, TypeTable};

use super::validate;
use crate::schema::samples::{basket, everything, field, list, optional, structure, tree};

fn table(types: Vec<NamedType>) -> TypeTable {
    TypeTable { types, root: Type::Named(0) }
}

#[test]
fn ordinary_tables_pass() {
    for table in [basket(), tree(), everything(), TypeTable::of(Type::Unit)] {
        assert_eq!(validate(&table), Ok(()));
    }
    // Two types that contain each other, with a list and an option in between.
    let a = structure("A", vec![field("b", list(Type::Named(1)))]);
    let b = structure("B", vec![field("a", Type::Named(0)), field("next", optional(Type::Named(1)))]);
    assert_eq!(validate(&table(vec![a, b])), Ok(()));
}

#[test]
fn tables_made_to_hurt_are_refused() {
    let newtype = |name: &str, ty| NamedType { name: name.to_owned(), shape: Shape::Newtype(ty) };
    let endless = vec![structure("A", vec![field("b", Type::Named(1))]), newtype("B", Type::Named(0))];
    let twice = vec![structure("A", vec![field("x", Type::I8), field("x", Type::I8)])];
    let mut wrong_default = field("x", Type::Bool);
    wrong_default.default = Some(vec![2]);
    let doubling = (1..40).map(|next| structure("D", vec![field("a", Type::Named(next)), field("b", Type::Named(next))]));
    let doubling: Vec<_> = doubling.chain([structure("End", Vec::new())]).collect();
    for (types, expected) in [
        (endless, "type A contains itself without end"),
        (twice, "type A: field `x` is there twice"),
        (
            vec![structure("A", vec![wrong_default])],
            "type A: the default of field `x` is not a value of its type: a flag is 2 instead of 0 or 1",
        ),
        (vec![structure("A", vec![field("x", list(Type::Unit))])], "type A: field `x`: the items of a list or map have no content"),
        (vec![structure("A", vec![field("x", Type::Named(5))])], "the type table has no type 5"),
        (doubling, "a value would consist of more than 4096 parts"),
        (vec![newtype("N", Type::Bool); 1_025], "the type table has 1025 types, more than 1024"),
    ] {
        assert_eq!(validate(&table(types)).unwrap_err(), expected);
    }
}
