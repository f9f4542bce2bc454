//! A table of typed columns, written as CSV (RFC 4180) or as Parquet. Both hold the same values, except that text which a
//! spreadsheet would take for a formula is guarded in CSV.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::csv_cell::{escape_formula, unique_names};

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// One value per row.
    pub values: Values,
}

/// Values of a column; `None` is empty in CSV and null in Parquet.
#[expect(missing_docs, reason = "each is a type")]
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Text(Vec<Option<String>>),
    Float64(Vec<Option<f64>>),
    Float32(Vec<Option<f32>>),
    Int32(Vec<Option<i32>>),
}

impl Column {
    /// A column called `name`.
    pub fn new(name: impl Into<String>, values: Values) -> Self {
        Self { name: name.into(), values }
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Float32(values) => values.len(),
            Self::Int32(values) => values.len(),
        }
    }

    /// The CSV cell of a row.
    fn cell(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values[row].as_deref().map(|text| escape_formula(text).into_owned()),
            Self::Float64(values) => values[row].map(|value| value.to_string()),
            Self::Float32(values) => values[row].map(|value| value.to_string()),
            Self::Int32(values) => values[row].map(|value| value.to_string()),
        }
        .unwrap_or_default()
    }

    fn physical(&self) -> Physical {
        match self {
            Self::Text(_) => Physical::BYTE_ARRAY,
            Self::Float64(_) => Physical::DOUBLE,
            Self::Float32(_) => Physical::FLOAT,
            Self::Int32(_) => Physical::INT32,
        }
    }
}

fn row_count(columns: &[Column]) -> usize {
    columns.first().map_or(0, |column| column.values.len())
}

/// The columns as CSV, with the digits that floats need to be read back exactly.
pub fn csv(columns: &[Column]) -> Vec<u8> {
    let whole = "memory takes every record of one length";
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| escape_formula(&column.name).into_owned())).expect(whole);
    for row in 0..row_count(columns) {
        writer.write_record(columns.iter().map(|column| column.values.cell(row))).expect(whole);
    }
    writer.into_inner().expect(whole)
}

/// The columns as Parquet, Snappy-compressed, with `about` as the file's key-value metadata and [`unique_names`]: pandas
/// cannot read a file with duplicate names.
pub fn parquet(columns: &[Column], about: &[(&str, &str)]) -> Result<Vec<u8>> {
    let names = unique_names(columns.iter().map(|column| column.name.as_str()));
    let fields = names.iter().zip(columns).map(|(name, column)| {
        let text = matches!(column.values, Values::Text(_)).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, column.values.physical());
        field.with_repetition(Repetition::OPTIONAL).with_logical_type(text).build().map(Arc::new)
    });
    let schema = Type::group_type_builder("table").with_fields(fields.collect::<Result<_>>()?).build()?;
    let about = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("ssmprobe ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(about.collect()));
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))?;
    if row_count(columns) > 0 {
        let mut group = writer.next_row_group()?;
        for column in columns {
            let mut writer = group.next_column()?.expect("a place for every column");
            write(writer.untyped(), &column.values)?;
            writer.close()?;
        }
        group.close()?;
    }
    writer.into_inner()
}

fn write(writer: &mut ColumnWriter<'_>, values: &Values) -> Result<()> {
    match (writer, values) {
        (ColumnWriter::ByteArrayColumnWriter(writer), Values::Text(values)) => {
            put(writer, values, |text| ByteArray::from(text.as_str()))
        }
        (ColumnWriter::DoubleColumnWriter(writer), Values::Float64(values)) => put(writer, values, |v| *v),
        (ColumnWriter::FloatColumnWriter(writer), Values::Float32(values)) => put(writer, values, |v| *v),
        (ColumnWriter::Int32ColumnWriter(writer), Values::Int32(values)) => put(writer, values, |v| *v),
        _ => unreachable!("the schema is that of the columns"),
    }
}

fn put<T: DataType, V>(
    writer: &mut ColumnWriterImpl<'_, T>,
    values: &[Option<V>],
    convert: impl Fn(&V) -> T::T,
) -> Result<()> {
    let present: Vec<T::T> = values.iter().flatten().map(convert).collect();
    // The definition level of every row: 1 if present, 0 if null.
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    writer.write_batch(&present, Some(&levels), None).map(drop)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    #[test]
    fn csv_and_parquet_hold_the_same_values() {
        let columns = [
            Column::new("name", Values::Text(vec![Some("=1+1".into()), None, Some("ä,\"b\"\n".into())])),
            Column::new("name", Values::Float64(vec![Some(0.1 + 0.2), Some(-0.0), None])),
            Column::new("=single", Values::Float32(vec![None, Some(0.1), Some(f32::MAX)])),
            Column::new("right", Values::Int32(vec![Some(1), Some(0), None])),
        ];
        let text = String::from_utf8(csv(&columns)).unwrap();
        let expected = "name,name,'=single,right\n'=1+1,0.30000000000000004,,1\n,-0,0.1,0\n\
                        \"ä,\"\"b\"\"\n\",,340282350000000000000000000000000000000,\n";
        assert_eq!(text, expected);
        let file = parquet(&columns, &[("title", "one")]).unwrap();
        assert_eq!(parquet(&columns, &[("title", "one")]).unwrap(), file, "the same bytes again");
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert_eq!((about[0].key.as_str(), about[0].value.as_deref()), ("title", Some("one")));
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        assert_eq!(rows[0], [text("=1+1"), Field::Double(0.1 + 0.2), Field::Null, Field::Int(1)]);
        assert_eq!(rows[1], [Field::Null, Field::Double(-0.0), Field::Float(0.1), Field::Int(0)]);
        assert_eq!(rows[2], [text("ä,\"b\"\n"), Field::Null, Field::Float(f32::MAX), Field::Null]);
        let columns = reader.metadata().file_metadata().schema_descr().columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        assert_eq!(names, ["name", "name 2", "=single", "right"]);
        let empty = parquet(&[Column::new("a", Values::Text(Vec::new()))], &[]).unwrap();
        let empty = SerializedFileReader::new(Bytes::from(empty)).unwrap();
        assert_eq!(empty.get_row_iter(None).unwrap().count(), 0);
    }
}
