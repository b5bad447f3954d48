#include "common/checkpoint/json_file.hpp"

#include <fmt/format.h>

#include <new>
#include <span>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/checkpoint/files/file_damage.hpp"

namespace ultra::checkpoint {

std::string read_text(FileLayer& files, const std::filesystem::path& path, FileOf owner) {
  const auto file = files.open_for_reading(path);
  if (file->size() > kMaxJsonFileBytes) {
    report_damaged(owner, path.string(),
                   fmt::format("it has {}, expected at most {}", format_bytes(file->size()),
                               format_bytes(kMaxJsonFileBytes)));
  }
  try {
    std::string text(static_cast<std::size_t>(file->size()), '\0');
    file->read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const std::bad_alloc&) {
    throw FileError(fmt::format("file '{}' of {} does not fit into this machine's memory.",
                                path.string(), format_bytes(file->size())));
  }
}

Json parse_json(const std::string& text, const std::string& path, FileOf owner) {
  try {
    return Json::parse(text, kMaxJsonDepth);
  } catch (const JsonError& error) {
    report_damaged(owner, path, error.what());
  }
}

Json parse_object(const std::string& text, const std::string& path) {
  Json object;
  try {
    object = Json::parse(text);
  } catch (const JsonError&) {
    // Nor is this an object.
  }
  if (!object.is_object()) report_damaged(FileOf::kModel, path, "it is no JSON object");
  return object;
}

std::string shown_json(const Json& json) {
  constexpr std::size_t kMostBytes = 80;
  constexpr int kNoIndent = -1;
  const std::string text = json.dump(kNoIndent, JsonLetters::kAscii);
  return text.size() > kMostBytes ? fmt::format("{:.{}}...", text, kMostBytes) : text;
}

}  // namespace ultra::checkpoint
