//! Builder methods of settings: structs that gain fields in later releases, so other crates cannot write them as
//! literals.

/// Generates methods that set one field each and return the settings. A parameter may be `impl Into` of the field's
/// type.
macro_rules! setters {
    ($settings:ty { $($(#[$doc:meta])* $field:ident: $value:ty,)+ }) => {
        impl $settings {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}

pub(crate) use setters;
