#include "chapters/01_toy/toy.hpp"
#include "common/base/errors.hpp"

namespace ultra::toy {

int twice(int /*a*/) { throw NotWritten("01.2 twice"); }

}  // namespace ultra::toy
