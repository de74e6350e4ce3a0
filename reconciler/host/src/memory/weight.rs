//! About how much memory a value takes, found by walking through it as if it were written down.

use std::fmt;

use serde::Serialize;
use serde::ser;

/// What a text, a list or nothing takes where it stands, in bytes.
const SLOT: usize = 24;

/// How many entries a node of a map has room for, and how many it has at least where there are several nodes.
const NODE: (usize, usize) = (11, 5);

/// What the allocator and counts of references add to each allocation.
const ALLOCATION: usize = 16;

/// About how many bytes a value takes with all that it holds, rather too many than too few. What is shared counts in full.
pub fn bytes_of<T: Serialize + ?Sized>(value: &T) -> usize {
    value.serialize(Scale).map_or(usize::MAX, |weight| weight.inline.saturating_add(weight.heap))
}

#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    /// Where it stands.
    inline: usize,
    /// What it leads to.
    heap: usize,
}

impl Weight {
    fn text(length: usize) -> Self {
        Self { inline: SLOT, heap: if length == 0 { 0 } else { length + ALLOCATION } }
    }

    fn number() -> Self {
        Self { inline: 8, heap: 0 }
    }
}

struct Scale;

/// Parts of one value.
#[derive(Default)]
struct Parts {
    count: usize,
    inline: usize,
    largest: usize,
    heap: usize,
}

impl Parts {
    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unweighed> {
        let weight = value.serialize(Scale)?;
        self.count += 1;
        self.inline += weight.inline;
        self.largest = self.largest.max(weight.inline);
        self.heap += weight.heap;
        Ok(())
    }

    /// Side by side, with what aligns them.
    fn together(self) -> Weight {
        Weight { inline: self.inline + 8, heap: self.heap }
    }

    /// A list, with what it has grown by in advance.
    fn list(self) -> Weight {
        let room = if self.count == 0 { 0 } else { self.count.next_power_of_two().max(4) * self.largest + ALLOCATION };
        Weight { inline: SLOT, heap: self.heap + room }
    }

    /// A map. Keys and values were counted one by one.
    fn map(self, keys: usize) -> Weight {
        let entries = self.count - self.count / 2;
        let nodes = entries.div_ceil(NODE.1);
        let room = nodes * (NODE.0 * (keys + self.largest) + 2 * ALLOCATION);
        Weight { inline: SLOT, heap: self.heap + room }
    }
}

/// That a value cannot be walked through.
#[derive(Debug)]
struct Unweighed;

impl fmt::Display for Unweighed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it cannot be weighed")
    }
}

impl std::error::Error for Unweighed {}

impl ser::Error for Unweighed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! numbers {
    ($($method:ident: $number:ty),*) => {
        $(fn $method(self, _: $number) -> Result<Weight, Unweighed> {
            Ok(Weight::number())
        })*
    };
}

impl ser::Serializer for Scale {
    type Ok = Weight;
    type Error = Unweighed;
    type SerializeSeq = List;
    type SerializeTuple = Fields;
    type SerializeTupleStruct = Fields;
    type SerializeTupleVariant = Fields;
    type SerializeMap = Map;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    numbers!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
        serialize_f64: f64, serialize_char: char
    );

    fn serialize_str(self, text: &str) -> Result<Weight, Unweighed> {
        Ok(Weight::text(text.len()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Weight, Unweighed> {
        Ok(Weight::text(bytes.len()))
    }

    fn serialize_none(self) -> Result<Weight, Unweighed> {
        Ok(Weight::text(0))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Weight, Unweighed> {
        let weight = value.serialize(self)?;
        Ok(Weight { inline: weight.inline + 8, ..weight })
    }

    fn serialize_unit(self) -> Result<Weight, Unweighed> {
        Ok(Weight::number())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Weight, Unweighed> {
        Ok(Weight::number())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Weight, Unweighed> {
        Ok(Weight::text(0))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Weight, Unweighed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<Weight, Unweighed> {
        self.serialize_some(value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List, Unweighed> {
        Ok(List(Parts::default()))
    }

    fn serialize_tuple(self, _: usize) -> Result<Fields, Unweighed> {
        Ok(Fields(Parts::default()))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Fields, Unweighed> {
        Ok(Fields(Parts::default()))
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Fields, Unweighed> {
        Ok(Fields(Parts::default()))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Map, Unweighed> {
        Ok(Map { keys: 0, parts: Parts::default() })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields, Unweighed> {
        Ok(Fields(Parts::default()))
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Fields, Unweighed> {
        Ok(Fields(Parts::default()))
    }
}

struct List(Parts);

impl ser::SerializeSeq for List {
    type Ok = Weight;
    type Error = Unweighed;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unweighed> {
        self.0.add(value)
    }

    fn end(self) -> Result<Weight, Unweighed> {
        Ok(self.0.list())
    }
}

struct Map {
    keys: usize,
    parts: Parts,
}

impl ser::SerializeMap for Map {
    type Ok = Weight;
    type Error = Unweighed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unweighed> {
        self.keys = self.keys.max(key.serialize(Scale)?.inline);
        self.parts.add(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unweighed> {
        self.parts.add(value)
    }

    fn end(self) -> Result<Weight, Unweighed> {
        Ok(self.parts.map(self.keys))
    }
}

struct Fields(Parts);

macro_rules! fields {
    ($($kind:ident: $method:ident),*) => {
        $(impl ser::$kind for Fields {
            type Ok = Weight;
            type Error = Unweighed;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unweighed> {
                self.0.add(value)
            }

            fn end(self) -> Result<Weight, Unweighed> {
                Ok(self.0.together())
            }
        })*
    };
    (named $($kind:ident),*) => {
        $(impl ser::$kind for Fields {
            type Ok = Weight;
            type Error = Unweighed;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Unweighed> {
                self.0.add(value)
            }

            fn skip_field(&mut self, _: &'static str) -> Result<(), Unweighed> {
                self.0.inline += SLOT;
                Ok(())
            }

            fn end(self) -> Result<Weight, Unweighed> {
                Ok(self.0.together())
            }
        })*
    };
}

fields!(SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field, SerializeTupleVariant: serialize_field);
fields!(named SerializeStruct, SerializeStructVariant);
