#include "tests/fuzz/checkpoint_json_fuzz.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "chapters/04_zero/checkpoints/training_record.hpp"
#include "common/base/errors.hpp"
#include "common/checkpoint/models/config_json.hpp"

namespace ultra::test {
namespace {

constexpr const char* kPath = "any text";

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

void check_message(const std::string& message) {
  constexpr std::size_t kLongest = 500;
  require(message.size() < kLongest, "a message is long");
  require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }),
          "a message has more than plain letters");
}

/// Reads a text; what was read must be written and read again as the same.
template <class Parse, class Write>
bool accepts(const std::string& text, const Parse& parse, const Write& write) {
  std::string written;
  try {
    written = write(parse(text, kPath));
  } catch (const FileError& error) {
    check_message(error.what());
    return false;
  }
  require(write(parse(written, kPath)) == written, "it is written with another meaning");
  return true;
}

}  // namespace

bool accepts_parts(const std::string& text) {
  return accepts(text, zero::parse_parts,
                 [](const std::vector<zero::WrittenPart>& parts) { return zero::to_json(parts); });
}

bool accepts_record(const std::string& text) {
  return accepts(text, zero::parse_record, [](const zero::TrainingRecord& record) {
    require(!record.steps.empty(), "it has no steps");
    require(record.writers >= 1, "it has no writers");
    for (std::size_t i = 0; i < record.steps.size(); ++i) {
      require(record.steps[i].step == i + 1, "a step is missing");
    }
    return zero::to_json(record);
  });
}

bool accepts_config(const std::string& text) {
  return accepts(text, checkpoint::parse_model_config, [](const nn::ModelConfig& model) {
    return checkpoint::model_config_json(model, DType::kF32);
  });
}

}  // namespace ultra::test

/// @brief What libFuzzer calls with each input: its text is read as each of the files.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ultra::test::accepts_parts(text);
  ultra::test::accepts_record(text);
  ultra::test::accepts_config(text);
  return 0;
}
