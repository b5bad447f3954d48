#include "common/base/errors.hpp"

#include <fmt/format.h>

namespace ultra {

NotWritten::NotWritten(std::string_view exercise)
    : Error(fmt::format("not written: {}. Hint: ./workbook hint {}", exercise,
                        exercise.substr(0, exercise.find(' ')))) {}

void ensure(bool condition, const char* what, std::source_location where) {
  if (!condition) [[unlikely]] {
    throw InternalError(fmt::format("{}:{}: internal error: {}. This is a bug of the workbook.",
                                    where.file_name(), where.line(), what));
  }
}

}  // namespace ultra
