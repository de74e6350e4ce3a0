//! Where the images of an object are.

use yaml::{Node, Style, Value};

use crate::schema::FieldSpec;
use crate::transform::field::Step;

/// The images of an object: looked for once, because most entries of `images` concern few objects.
pub(super) enum Places {
    /// The way to each, in the order they are worked off in, as indices of entries and items.
    Known(Vec<Vec<usize>>),
    /// There is something that is no image where one should be.
    Anywhere,
}

impl Places {
    /// Looks into all containers and at all fields.
    pub(super) fn of(object: &Node, fields: &[&FieldSpec]) -> Self {
        let mut search = Search { way: Vec::new(), found: Vec::new() };
        let ordinary = search.containers(object) && fields.iter().all(|spec| search.field(object, &spec.parts));
        if ordinary { Self::Known(search.found) } else { Self::Anywhere }
    }
}

/// The lists that hold containers, wherever they are.
pub(super) fn is_containers(key: &str) -> bool {
    matches!(key, "containers" | "initContainers")
}

/// Each step says whether all was as it should be.
struct Search {
    way: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn below(&mut self, index: usize, step: impl FnOnce(&mut Self) -> bool) -> bool {
        self.way.push(index);
        let ordinary = step(self);
        self.way.pop();
        ordinary
    }

    fn add(&mut self, image: &Node) -> bool {
        self.found.push(self.way.clone());
        image.is_scalar()
    }

    fn containers(&mut self, node: &Node) -> bool {
        match &node.value {
            Value::Sequence(items) => {
                items.iter().enumerate().all(|(at, item)| self.below(at, |search| search.containers(item)))
            }
            Value::Mapping(mapping) => mapping.iter().enumerate().all(|(at, entry)| {
                self.below(at, |search| {
                    let is_list = is_containers(&entry.key);
                    search.containers(&entry.value) && (!is_list || search.container_images(&entry.value))
                })
            }),
            _ => true,
        }
    }

    fn container_images(&mut self, list: &Node) -> bool {
        list.as_sequence().into_iter().flatten().enumerate().all(|(at, container)| match &container.value {
            Value::Null => true,
            Value::Mapping(mapping) => match mapping.find("image") {
                Some((index, image)) => self.below(at, |search| search.below(index, |search| search.add(image))),
                None => true,
            },
            _ => false,
        })
    }

    fn field(&mut self, node: &Node, path: &[String]) -> bool {
        let Some((part, rest)) = path.split_first() else {
            return self.add(node);
        };
        match &node.value {
            Value::Null => node.style() != Style::Untyped,
            Value::Sequence(items) => {
                items.iter().enumerate().all(|(at, item)| self.below(at, |search| search.field(item, path)))
            }
            Value::Mapping(mapping) => match Step::of(part) {
                Step::Field { name, is_list } => match mapping.find(name) {
                    Some((_, field)) if is_list && field.is_null() => false,
                    Some((index, field)) => self.below(index, |search| search.field(field, rest)),
                    None => true,
                },
                Step::Stay => self.field(node, rest),
                Step::Nameless | Step::IntoList => false,
            },
            _ => false,
        }
    }
}
