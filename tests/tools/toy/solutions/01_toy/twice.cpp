#include "chapters/01_toy/toy.hpp"

namespace ultra::toy {

int twice(int a) { return add(a, a); }

}  // namespace ultra::toy
