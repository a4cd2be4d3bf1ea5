//! The types of the descriptor, which the SDK would have derived.

use tidemill_wit::schema::{Content, Field, NamedType, Shape, Type, TypeTable, Variant};

use crate::Attack;

/// A record: `{key: string}`.
#[must_use]
pub fn record() -> TypeTable {
    let fields = vec![field("key", Type::String, None)];
    TypeTable { types: vec![named("Record", Shape::Struct(fields))], root: Type::Named(0) }
}

/// The parameters: `{attack, only}`, both optional.
#[must_use]
pub fn parameters() -> TypeTable {
    let variant = |name: &&str| Variant { name: (*name).to_owned(), aliases: Vec::new(), content: Content::Unit };
    let attack = Shape::Enum(Attack::NAMES.iter().map(variant).collect());
    // The code of the first variant, and the length of an empty text.
    let fields = vec![field("attack", Type::Named(1), Some(0)), field("only", Type::String, Some(0))];
    TypeTable { types: vec![named("Parameters", Shape::Struct(fields)), named("Attack", attack)], root: Type::Named(0) }
}

fn named(name: &str, shape: Shape) -> NamedType {
    NamedType { name: name.to_owned(), shape }
}

fn field(name: &str, ty: Type, default: Option<u8>) -> Field {
    Field { name: name.to_owned(), aliases: Vec::new(), ty, default: default.map(|byte| vec![byte]) }
}

#[cfg(test)]
mod tests {
    use super::parameters;
    use crate::{Attack, Parameters};

    #[test]
    fn attacks_have_their_names_codes() {
        let last = Parameters { attack: Attack::HugeOutput, only: String::new() };
        assert_eq!(postcard::to_allocvec(&last).unwrap(), [7, 0]);
        assert_eq!(Attack::NAMES[7], "huge-output");
        assert_eq!(parameters().fields().unwrap().len(), 2);
    }
}
