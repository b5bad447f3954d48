#include "common/checkpoint/safetensors/header_json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/json_events.hpp"
#include "common/checkpoint/files/file_damage.hpp"

namespace ultra::checkpoint {
namespace {

/// What the parser has read so far, and so what may come next.
enum class ParserState {
  kStart,         // before the header's object
  kHeader,        // in it: a key or its end
  kMetadata,      // after the key of the metadata
  kMetadataKey,   // in its object
  kMetadataText,  // after one of its keys
  kTensor,        // after a tensor's name
  kTensorKey,     // in its object
  kType,          // after "dtype"
  kShape,         // after "shape"
  kExtent,        // in its list
  kOffsets,       // after "data_offsets"
  kOffset         // in its list
};

constexpr std::string_view kTypeKey = "dtype";
constexpr std::string_view kShapeKey = "shape";
constexpr std::string_view kOffsetsKey = "data_offsets";

/// @brief Takes what the parser finds, piece by piece; refuses what does not belong to a header.
class HeaderReader final : public JsonEvents {
 public:
  HeaderReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  HeaderContent take() { return std::move(content_); }

  void null() override { refuse_value("null"); }
  void boolean(bool value) override { refuse_value(value ? "true" : "false"); }
  void negative(std::int64_t value) override { refuse_value(fmt::to_string(value)); }
  void number(double, const std::string& text) override { refuse_value(clipped(text)); }

  void whole(std::uint64_t value) override {
    if (state_ == ParserState::kExtent) {
      tensor().shape.push_back(value);
    } else if (state_ == ParserState::kOffset && offsets_read_ < offsets_.size()) {
      offsets_[offsets_read_++] = value;
    } else {
      refuse_value(state_ == ParserState::kOffset ? "a third number" : fmt::to_string(value));
    }
  }

  void string(std::string& value) override {
    if (state_ == ParserState::kMetadataText) {
      *metadata_text_ = value;
      state_ = ParserState::kMetadataKey;
    } else if (state_ == ParserState::kType) {
      read_type(value);
      state_ = ParserState::kTensorKey;
    } else {
      refuse_value(fmt::format("the text {}", shown_text(value)));
    }
  }

  void begin_object() override {
    if (state_ == ParserState::kStart) {
      state_ = ParserState::kHeader;
    } else if (state_ == ParserState::kMetadata) {
      state_ = ParserState::kMetadataKey;
    } else if (state_ == ParserState::kTensor) {
      state_ = ParserState::kTensorKey;
    } else {
      refuse_value("an object");
    }
  }

  void key(std::string& name) override {
    if (state_ == ParserState::kHeader) {
      enter_entry(name);
    } else if (state_ == ParserState::kMetadataKey) {
      const auto [entry, is_new] = content_.metadata.try_emplace(name);
      if (!is_new) refuse(fmt::format("{} has two entries {}", kMetadataKey, shown_text(name)));
      metadata_text_ = &entry->second;
      state_ = ParserState::kMetadataText;
    } else {
      enter_property(name);
    }
  }

  void end_object() override {
    if (state_ == ParserState::kTensorKey) {
      if (!has_type_) refuse_missing(kTypeKey);
      if (!has_shape_) refuse_missing(kShapeKey);
      if (!has_offsets_) refuse_missing(kOffsetsKey);
    }
    state_ = ParserState::kHeader;
  }

  void begin_array() override {
    if (state_ == ParserState::kShape) {
      state_ = ParserState::kExtent;
    } else if (state_ == ParserState::kOffsets) {
      state_ = ParserState::kOffset;
    } else {
      refuse_value("a list");
    }
  }

  void end_array() override {
    if (state_ == ParserState::kOffset) {
      if (offsets_read_ != offsets_.size()) {
        refuse(fmt::format("{} holds {} of two numbers", described(ParserState::kOffsets),
                           offsets_read_));
      }
      tensor().bytes = Range{offsets_[0], offsets_[1]};
    }
    state_ = ParserState::kTensorKey;
  }

  void too_large(const std::string& text) override { refuse_value(clipped(text)); }
  void no_json(std::size_t position) override {
    refuse(fmt::format("its header is not JSON {}", shown_json_place(text_, position)));
  }

 private:
  StoredTensor& tensor() { return content_.tensors.back(); }

  void enter_entry(std::string& name) {
    if (name == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) refuse(fmt::format("it has two {}", kMetadataKey));
      state_ = ParserState::kMetadata;
      return;
    }
    content_.tensors.emplace_back().name = std::move(name);
    has_type_ = has_shape_ = has_offsets_ = false;
    state_ = ParserState::kTensor;
  }

  void enter_property(const std::string& name) {
    if (name == kTypeKey) {
      enter(ParserState::kType, kTypeKey, has_type_);
    } else if (name == kShapeKey) {
      enter(ParserState::kShape, kShapeKey, has_shape_);
    } else if (name == kOffsetsKey) {
      enter(ParserState::kOffsets, kOffsetsKey, has_offsets_);
      offsets_read_ = 0;
    } else {
      refuse(fmt::format("tensor {} has an entry {}, expected {}, {} and {} only",
                         shown_text(tensor().name), shown_text(name), kTypeKey, kShapeKey,
                         kOffsetsKey));
    }
  }

  void enter(ParserState state, std::string_view name, bool& seen) {
    if (std::exchange(seen, true)) {
      refuse(fmt::format("tensor {} has two entries {}", shown_text(tensor().name), name));
    }
    state_ = state;
  }

  void read_type(const std::string& name) {
    const std::optional<StoredType> type = parse_stored_type(name);
    if (!type) {
      std::vector<std::string_view> known;
      for (const StoredType each : kStoredTypes) known.push_back(to_string(each));
      refuse(fmt::format("tensor {} has the unknown dtype {}, expected one of {}",
                         shown_text(tensor().name), shown_text(name), fmt::join(known, ", ")));
    }
    tensor().type = *type;
  }

  [[noreturn]] void refuse(std::string_view what) const { report_damage(path_, what); }

  [[noreturn]] void refuse_missing(std::string_view key) {
    refuse(fmt::format("tensor {} has no {}", shown_text(tensor().name), key));
  }

  /// Something stands where it does not belong.
  [[noreturn]] void refuse_value(std::string_view found) {
    refuse(fmt::format("{} is {}, expected {}", described(state_), found, expected()));
  }

  [[nodiscard]] std::string described(ParserState state) {
    switch (state) {
      case ParserState::kMetadata:
        return std::string(kMetadataKey);
      case ParserState::kMetadataText:
        return fmt::format("a value of {}", kMetadataKey);
      case ParserState::kTensor:
        return fmt::format("tensor {}", shown_text(tensor().name));
      case ParserState::kType:
        return fmt::format("the dtype of tensor {}", shown_text(tensor().name));
      case ParserState::kShape:
        return fmt::format("the shape of tensor {}", shown_text(tensor().name));
      case ParserState::kExtent:
        return fmt::format("an extent in the shape of tensor {}", shown_text(tensor().name));
      case ParserState::kOffsets:
        return fmt::format("the data_offsets of tensor {}", shown_text(tensor().name));
      case ParserState::kOffset:
        return fmt::format("one of the data_offsets of tensor {}", shown_text(tensor().name));
      default:
        return "its header";
    }
  }

  [[nodiscard]] std::string_view expected() const {
    switch (state_) {
      case ParserState::kMetadata:
        return "an object of texts";
      case ParserState::kMetadataText:
        return "a text";
      case ParserState::kTensor:
        return "an object of dtype, shape and data_offsets";
      case ParserState::kType:
        return "a text such as \"F32\"";
      case ParserState::kShape:
        return "a list of integers that are not negative";
      case ParserState::kExtent:
        return "an integer in [0, 2^64)";
      case ParserState::kOffsets:
        return "a list of two integers";
      case ParserState::kOffset:
        return "two integers in [0, 2^64)";
      default:
        return "an object";
    }
  }

  static std::string clipped(const std::string& number) {
    constexpr std::size_t kShownDigits = 32;
    return number.substr(0, kShownDigits);
  }

  std::string_view text_;
  const std::string& path_;
  ParserState state_ = ParserState::kStart;
  HeaderContent content_;
  std::string* metadata_text_ = nullptr;  // where the next text of the metadata goes
  std::array<std::size_t, 2> offsets_{};  // of the tensor under way
  std::size_t offsets_read_ = 0;
  bool has_metadata_ = false;
  bool has_type_ = false;  // of the tensor under way
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

std::string json_text(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const JsonError&) {
    throw ConfigError(
        fmt::format("a checkpoint can only hold texts in UTF-8, found {}", shown_text(text)));
  }
}

/// The parser takes a zero byte for the end of the text.
void expect_no_zero(std::string_view text, const std::string& path) {
  const std::size_t zero = text.find('\0');
  if (zero == std::string_view::npos) return;
  report_damage(
      path, fmt::format("its header is not JSON at byte {} of {}: a zero byte", zero, text.size()));
}

}  // namespace

std::string write_header_json(std::span<const StoredTensor> tensors, const Metadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += fmt::format("\"{}\":{{", kMetadataKey);
    for (const auto& [name, text] : metadata) {
      json += fmt::format("{}:{},", json_text(name), json_text(text));
    }
    json.back() = '}';
    json += ',';
  }
  for (const StoredTensor& tensor : tensors) {
    json += fmt::format(R"({}:{{"{}":"{}","{}":[{}],"{}":[{},{}]}},)", json_text(tensor.name),
                        kTypeKey, to_string(tensor.type), kShapeKey, fmt::join(tensor.shape, ","),
                        kOffsetsKey, tensor.bytes.begin, tensor.bytes.end);
  }
  if (json.back() == ',') json.pop_back();
  return json + '}';
}

HeaderContent read_header_json(std::string_view text, const std::string& path) {
  if (text.empty()) report_damage(path, "its header is empty, expected JSON");
  expect_no_zero(text, path);
  if (text.front() != '{') {
    report_damage(path, fmt::format("its header begins with {}, expected a JSON object: '{{'",
                                    shown_text(text.substr(0, 1))));
  }
  HeaderReader reader(text, path);
  read_json_events(text, reader);
  return reader.take();
}

}  // namespace ultra::checkpoint
