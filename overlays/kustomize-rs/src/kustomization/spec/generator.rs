//! Entries of `configMapGenerator` and `secretGenerator`, and `generatorOptions`.

use yaml::Span;

use crate::error::BuildError;
use crate::kustomization::fields::Fields;
use crate::resource::Behavior;

/// Options of generated objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct GeneratorOptions {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) annotations: Vec<(String, String)>,
    pub(crate) disable_name_suffix_hash: bool,
    pub(crate) immutable: bool,
}

/// An entry of `configMapGenerator` or `secretGenerator`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Generator {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) behavior: Behavior,
    pub(crate) literals: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) envs: Vec<String>,
    /// Of a secret; empty for `Opaque`.
    pub(crate) secret_type: String,
    pub(crate) options: GeneratorOptions,
    pub(crate) span: Span,
}

pub(crate) fn generator_options(fields: &Fields<'_>) -> Result<GeneratorOptions, BuildError> {
    Ok(GeneratorOptions {
        labels: fields.map("labels")?,
        annotations: fields.map("annotations")?,
        disable_name_suffix_hash: fields.flag("disableNameSuffixHash")?,
        immutable: fields.flag("immutable")?,
    })
}

pub(crate) fn config_map_generator(fields: &Fields<'_>) -> Result<Generator, BuildError> {
    let mut envs = fields.texts("envs")?;
    envs.extend(fields.optional_text("env")?.filter(|env| !env.is_empty()));
    Ok(Generator {
        name: fields.text("name")?,
        namespace: fields.text("namespace")?,
        behavior: Behavior::parse(&fields.text("behavior")?),
        literals: fields.texts("literals")?,
        files: fields.texts("files")?,
        envs,
        secret_type: String::new(),
        options: fields.object("options", generator_options)?.unwrap_or_default(),
        span: fields.span(),
    })
}

pub(crate) fn secret_generator(fields: &Fields<'_>) -> Result<Generator, BuildError> {
    Ok(Generator { secret_type: fields.text("type")?, ..config_map_generator(fields)? })
}

impl GeneratorOptions {
    /// Adds what the global options have more.
    pub(crate) fn inherit(&mut self, global: &GeneratorOptions) {
        let inherit = |own: &mut Vec<(String, String)>, global: &[(String, String)]| {
            for (key, value) in global {
                if !own.iter().any(|(known, _)| known == key) {
                    own.push((key.clone(), value.clone()));
                }
            }
        };
        inherit(&mut self.labels, &global.labels);
        inherit(&mut self.annotations, &global.annotations);
        self.disable_name_suffix_hash |= global.disable_name_suffix_hash;
        self.immutable |= global.immutable;
    }
}
