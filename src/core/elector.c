#include "core/elector.h"
