#include <stdio.h>
#include <math.h>
void compute_minimum(const double *x0, const double *x1, double *minimum, double *select);
int main(void){ double x[9]={-0.,INFINITY,-1,-0.,2.5,-INFINITY,0.5,INFINITY,INFINITY}, y[9]={1,2,3,4,5,6,7,8,9}, m[9], s[9];
compute_minimum(x,y,m,s); for(int i=0;i<9;i++) printf("%g ", s[i]); puts(""); return 0;}
