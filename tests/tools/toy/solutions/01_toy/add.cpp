#include "chapters/01_toy/toy.hpp"

namespace ultra::toy {

int add(int a, int b) { return a + b; }

}  // namespace ultra::toy
